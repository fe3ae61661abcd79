"""Checks whether this machine has what runs need, for `tarmac clusters check`. Called by `LocalEngine`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence

from tarmac.engines.attempts.layout import Layout
from tarmac.model.engine_kinds import Finding
from tarmac.node.container.trial import Trial

LEAST_FREE_BYTES = 1 << 30


def examined(layout: Layout, containers: Trial) -> Sequence[Finding]:
    """Findings: whether the home is writable, whether it has space, and whether runs can start in images."""
    images = Finding(what="images", ok=containers.works, text=containers.text)
    return [_writable(layout), _room(layout), images]


def _writable(layout: Layout) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=layout.home):
            pass
    except OSError as error:
        return Finding(what="home", ok=False, text=f"{layout.home}: {error.strerror}")
    return Finding(what="home", ok=True, text=f"{layout.home} can be written")


def _room(layout: Layout) -> Finding:
    free_bytes = shutil.disk_usage(layout.home).free
    free = f"{free_bytes / 2**30:.1f} GiB free"
    enough = free_bytes >= LEAST_FREE_BYTES
    return Finding(what="disk", ok=enough, text=free if enough else f"{free}: checkpoints and logs need more")
