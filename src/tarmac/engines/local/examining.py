"""Whether this machine has what runs need, for `tarmac clusters check`. Called by `LocalEngine`."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from tarmac.engines.attempts.layout import Layout
from tarmac.model.engine_kinds import Finding
from tarmac.node.starting import Installation

LEAST_FREE_BYTES = 1 << 30
TRIAL_S = 30.0


def examined(layout: Layout, installation: Installation, driver: str) -> Sequence[Finding]:
    """The home can be written, there is room in it, and runs can start in images (`driver`: see settings)."""
    return [_writable(layout), _room(layout), _images(layout, installation.trial(str(layout.home), driver))]


def _writable(layout: Layout) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=layout.home):
            pass
    except OSError as error:
        return Finding(what="home", ok=False, text=f"{layout.home}: {error.strerror}")
    return Finding(what="home", ok=True, text=f"{layout.home} can be written")


def _images(layout: Layout, argv: Sequence[str]) -> Finding:
    """Tried in a process of its own: a server has threads, and may not fork."""
    try:
        done = subprocess.run(
            argv, cwd=layout.home, capture_output=True, text=True, timeout=TRIAL_S, check=False
        )
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Finding(what="images", ok=False, text=f"it could not be tried: {error}")
    return Finding(what="images", ok=found["works"], text=found["text"])


def _room(layout: Layout) -> Finding:
    free_bytes = shutil.disk_usage(layout.home).free
    free = f"{free_bytes / 2**30:.1f} GiB free"
    enough = free_bytes >= LEAST_FREE_BYTES
    return Finding(what="disk", ok=enough, text=free if enough else f"{free}: checkpoints and logs need more")
