"""Files of ended runs on the disk: cleared in part, or removed. Called by engines, and on their hosts.

After the end of a run its working directories are removed first, its logs later; events, metrics and
artifacts remain. A file beside them lists the removed parts (`CLEARED_FILE`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Optional

from tarmac.node.attempt.protocol import (
    ARTIFACT_KINDS,
    CLEARED_FILE,
    FILES,
    HEARTBEAT_FILE,
    LOGS,
    NODES,
    POLL_PREFIX,
    VENV,
    WAKE_FIFO,
    WORK,
)
from tarmac.node.files import untrusted

_SCRATCH = frozenset({WORK, VENV, FILES})
_SIGNALS = frozenset({WAKE_FIFO, HEARTBEAT_FILE})
"""Files that only a runner uses."""


def remains(runs: str) -> list[str]:
    """The runs with files in a directory of runs."""
    try:
        return os.listdir(runs)
    except FileNotFoundError:
        return []


def clear(run: str, *, work_days: Optional[float], log_days: Optional[float]) -> int:
    """Remove a run's working directories and logs, each after its number of days since the end of the run.

    `run` is its directory. Returns the number of attempts with removed files.
    """
    cleared = 0
    for attempt in _directories(f"{run}/attempts"):
        removed: dict[str, float] = {}
        if work_days is not None and _clear_scratch(attempt):
            removed["work"] = work_days
        if log_days is not None and _remove(f"{attempt}/{LOGS}"):
            removed["logs"] = log_days
        if removed:
            _note(attempt, removed)
            cleared += 1
    if work_days is not None:
        _remove_empty(Path(run) / "artifacts")
    return cleared


def remove(home: str, run_id: str) -> None:
    """Remove all files of a run below a home, if there are any. Raises OSError."""
    for directory in (f"{home}/runs", *_directories(f"{home}/disks")):
        with suppress(FileNotFoundError):
            untrusted.remove_tree(f"{directory}/{run_id}")


def _clear_scratch(attempt: str) -> bool:
    """Remove the working directories of an attempt; returns whether there were any."""
    removed = False
    for node in _directories(f"{attempt}/{NODES}"):
        for path in _directories(node):
            removed = (Path(path).name in _SCRATCH and _remove(path)) or removed
        with suppress(OSError):
            for item in Path(node).iterdir():
                if item.name in _SIGNALS or item.name.startswith(POLL_PREFIX):
                    item.unlink()
    return removed


def _remove(directory: str) -> bool:
    """Remove a directory; False if it is missing, a link, in use, or another user's."""
    try:
        untrusted.remove_tree(directory)
    except OSError:
        return False
    return True


def _remove_empty(artifacts: Path) -> None:
    """Remove the artifact directories that are empty."""
    with suppress(OSError):  # a directory with content stays, and so do its parents
        if not artifacts.is_symlink():
            for kind in ARTIFACT_KINDS:
                with suppress(OSError):
                    (artifacts / kind).rmdir()
            artifacts.rmdir()


def _note(attempt: str, removed: dict[str, float]) -> None:
    """Record the removed parts, and after how many days."""
    path = f"{attempt}/{CLEARED_FILE}"
    with suppress(OSError, ValueError):
        removed = {**untrusted.read_object(path), **removed}
    with suppress(OSError):
        untrusted.replace(path, json.dumps(removed).encode())


def _directories(path: str) -> Iterator[str]:
    """The directories in one that is not itself a link: a run could link to another user's directory."""
    try:
        if Path(path).is_symlink():
            return
        with os.scandir(path) as found:
            yield from [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
