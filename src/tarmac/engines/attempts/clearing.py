"""What attempts of ended runs left on the disk, cleared up in part, and said in words. Called by engines.

Of a run that has ended, first what it worked in goes, later its logs; the events, the metrics and the
artifacts stay. What was removed is written down beside them (`CLEARED_FILE`). The run could have written that
file: only numbers are taken from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from tarmac.engines.attempts.layout import Layout
from tarmac.model.ports import Notice
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
"""Of use to a runner alone."""

_SENTENCES = {
    "work": "its work directories, and what was installed for it, were removed {} after its end",
    "logs": "its logs were removed {} after its end",
}


def remains(layout: Layout) -> Collection[str]:
    """The runs that have left something."""
    try:
        return [path.name for path in layout.runs.iterdir()]
    except FileNotFoundError:
        return ()


def clear(layout: Layout, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
    """Remove what a run worked in, and its logs: each where that is due, so many days after its end.

    The number of attempts that had such.
    """
    cleared = 0
    for attempt in _directories(str(layout.runs / run_id / "attempts")):
        told: dict[str, float] = {}
        if work_days is not None and _clear_scratch(attempt):
            told["work"] = work_days
        if log_days is not None and _remove(f"{attempt}/{LOGS}"):
            told["logs"] = log_days
        if told:
            _note(attempt, told)
            cleared += 1
    if work_days is not None:
        _remove_empty(layout.runs / run_id / "artifacts")
    return cleared


def cleared_notices(directory: Path, node: str) -> Iterator[Notice]:
    """One for each kind of thing that is gone."""
    path = directory / CLEARED_FILE
    try:
        told, at = untrusted.read_object(str(path)), path.lstat().st_mtime
    except (OSError, ValueError):
        return  # nothing was
    for what, sentence in _SENTENCES.items():
        days = told.get(what)
        if isinstance(days, int | float) and days >= 0:
            yield Notice(at=at, node=node, text=sentence.format("1 day" if days == 1 else f"{days:g} days"))


def _clear_scratch(attempt: str) -> bool:
    """Remove what an attempt worked in; whether there was any of it."""
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
    """Whether it was there, and no link, and is gone now; in use, or another user's: it stays."""
    try:
        untrusted.remove_tree(directory)
    except OSError:
        return False
    return True


def _remove_empty(artifacts: Path) -> None:
    """The directories of artifacts that hold none."""
    with suppress(OSError):  # one that holds something stays, and so does what it lies in
        if not artifacts.is_symlink():
            for kind in ARTIFACT_KINDS:
                with suppress(OSError):
                    (artifacts / kind).rmdir()
            artifacts.rmdir()


def _note(attempt: str, told: dict[str, float]) -> None:
    """Say what is gone, and after how many days."""
    path = f"{attempt}/{CLEARED_FILE}"
    with suppress(OSError, ValueError):
        told = {**untrusted.read_object(path), **told}
    with suppress(OSError):
        untrusted.replace(path, json.dumps(told).encode())


def _directories(path: str) -> Iterator[str]:
    """The directories in one that is no link itself: a run could put one anywhere, to somebody else's."""
    try:
        if Path(path).is_symlink():
            return
        with os.scandir(path) as found:
            yield from [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
