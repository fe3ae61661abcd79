"""Making attempt directories: whole or not at all, once.

Called by engines. A directory is made in the staging area and renamed to its place; whoever comes
second finds it there. It holds little: what else a runner needs, the runner makes. Nothing is flushed to the
disk: a power loss ends what runs here anyway, and what it leaves of a directory is seen as damaged.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptRequest
from tarmac.engines.attempts.writing import hint, pending_request
from tarmac.model.errors import Unavailable
from tarmac.model.run import LeaveRequest
from tarmac.node.attempt import protocol
from tarmac.node.attempt.document import AttemptDocument, to_json


def prepare(layout: Layout) -> None:
    """Make the home's own directories and remove what a crash left half-staged."""
    shutil.rmtree(layout.staging, ignore_errors=True)
    layout.staging.mkdir(mode=0o700, parents=True, exist_ok=True)


def stage(request: AttemptRequest, layout: Layout) -> bool:
    """Make the directory of an attempt; False where there is one. Raises Unavailable, having done nothing."""
    files = {protocol.ATTEMPT_FILE: to_json(request.document)}
    return not request.directory.exists() and _make(request.attempt_id, request.directory, layout, files)


def stage_fence(attempt_id: str, directory: Path, layout: Layout, ask: LeaveRequest | None) -> None:
    """Take the place of an attempt that was never submitted, so that it never starts."""
    document = AttemptDocument(attempt_id, number=0, token="", nodes=())
    files: dict[str, Mapping[str, Any]] = {protocol.ATTEMPT_FILE: to_json(document)}
    if ask is not None:
        files[protocol.ASK_FILE] = pending_request(ask)
    _make(attempt_id, directory, layout, files)


def _make(attempt_id: str, directory: Path, layout: Layout, files: Mapping[str, Mapping[str, Any]]) -> bool:
    partial = layout.staging / attempt_id
    try:
        if partial.exists():  # an earlier call failed half-way and could not clear up
            shutil.rmtree(partial)
        partial.mkdir(mode=0o700)
        for name, content in files.items():
            (partial / name).write_text(json.dumps(content))
        directory.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(directory)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            message = f"cannot make the directory of attempt {attempt_id}: {error.strerror}"
            raise Unavailable(message, hint=hint(error)) from None
        return False
    return True
