"""Making attempt directories: whole or not at all, once.

Called by `LocalEngine`. A directory is made in the staging area and renamed to its place; whoever comes
second finds it there. Nothing is flushed to the disk: a power loss ends what runs here anyway, and what
it leaves of a directory is seen as damaged by the one who reads it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarmac.engines.local.layout import Layout
from tarmac.engines.local.request import LocalRequest
from tarmac.model.errors import Unavailable
from tarmac.model.run import Ask
from tarmac.node import protocol

SPACE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})


def prepare(layout: Layout) -> None:
    """Make the home's own directories and remove what a crash left half-staged."""
    shutil.rmtree(layout.staging, ignore_errors=True)
    layout.staging.mkdir(mode=0o700, parents=True, exist_ok=True)


def stage(request: LocalRequest, layout: Layout) -> None:
    """Make the directory of an attempt, unless there is one. Raises Unavailable, having done nothing."""
    if request.directory.exists():
        return
    try:
        for directory in request.artifacts.values():
            directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unavailable(request.attempt_id, error) from None
    _make(request.attempt_id, request.directory, layout, {protocol.ATTEMPT_FILE: request.document})


def stage_fence(attempt_id: str, directory: Path, layout: Layout, ask: Ask | None) -> None:
    """Take the place of an attempt that was never submitted, so that it never starts."""
    document = {"protocol": protocol.PROTOCOL, "attempt_id": attempt_id, "token": "", "nodes": []}
    files: dict[str, Mapping[str, Any]] = {protocol.ATTEMPT_FILE: document}
    if ask is not None:
        files[protocol.ASK_FILE] = asking(ask)
    _make(attempt_id, directory, layout, files)


def write_ask(directory: Path, ask: Ask) -> None:
    """Replace what an attempt is asked. Raises Unavailable when the disk does not take it."""
    draft = directory / f"{protocol.ASK_FILE}.draft"
    try:
        draft.write_text(json.dumps(asking(ask)))
        draft.replace(directory / protocol.ASK_FILE)
    except OSError as error:
        raise Unavailable(f"cannot pass on the {ask}: {error.strerror}", hint=_hint(error)) from None


def asking(ask: Ask) -> Mapping[str, Any]:
    """The content of an ask file."""
    return {"ask": ask.value, "at": time.time()}


def _make(attempt_id: str, directory: Path, layout: Layout, files: Mapping[str, Mapping[str, Any]]) -> None:
    partial = layout.staging / attempt_id
    try:
        if partial.exists():  # an earlier call failed half-way and could not clear up
            shutil.rmtree(partial)
        _write(partial, files)
        directory.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(directory)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise _unavailable(attempt_id, error) from None


def _write(directory: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    directory.mkdir(mode=0o700)
    (directory / protocol.LOGS).mkdir()
    (directory / protocol.NODES).mkdir()
    for node in files[protocol.ATTEMPT_FILE]["nodes"]:
        own = directory / protocol.NODES / node["node"]
        own.mkdir()
        os.mkfifo(own / protocol.WAKE_FIFO, 0o600)
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))


def _unavailable(attempt_id: str, error: OSError) -> Unavailable:
    return Unavailable(
        f"cannot make the directory of attempt {attempt_id}: {error.strerror}", hint=_hint(error)
    )


def _hint(error: OSError) -> str | None:
    return "free some space under the tarmac home" if error.errno in SPACE_ERRORS else None
