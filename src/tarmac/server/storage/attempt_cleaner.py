"""What ended runs left on the disk, cleared up by age: first what they worked in, later their logs.

Made by `wiring`; a thread of its own looks now and then. What a run that has not ended needs is never
touched, nor are the record, the events, the metrics and the artifacts of any. What was removed is said in the
attempt's directory (`CLEARED_FILE`), for `show` and `logs`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

from tarmac.model.ports import Clock, Store
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
from tarmac.server.storage.janitor import Janitor

TIDY_EVERY_S = 3_600.0
_DAY_S = 86_400.0

_SCRATCH = frozenset({WORK, VENV, FILES})
_SIGNALS = frozenset({WAKE_FIFO, HEARTBEAT_FILE})
"""Of use to a runner alone."""

log = logging.getLogger(__name__)


class AttemptCleaner:
    """Removes what has had its time. `runs` is where the engine keeps the directories of runs.

    `work_days` and `log_days`: how long after the end of a run what it worked in, and its logs, are kept.
    """

    def __init__(self, store: Store, clock: Clock, *, runs: Path, work_days: float, log_days: float) -> None:
        self._store = store
        self._clock = clock
        self._runs = runs
        self._work_days = work_days
        self._log_days = log_days
        self._due: dict[str, float] = {}
        self.janitor = Janitor("remains", self.tidy, every_s=TIDY_EVERY_S)

    def tidy(self) -> None:
        """Remove what has had its time; a directory is looked at only when something in it is due."""
        if not self._runs.is_dir():
            return
        now = self._clock.now()
        live = {run.id for run in self._store.live_runs()}
        there = {path.name for path in self._runs.iterdir()}
        self._due = {run_id: due for run_id, due in self._due.items() if run_id in there}
        asked = sorted(run_id for run_id in there - live if self._due.get(run_id, now) <= now)
        cleared = 0
        for run_id, run in self._store.load_runs(asked).items():
            if run.ended_at is not None:
                age_days = (now - run.ended_at) / _DAY_S
                cleared += self._clear(self._runs / run_id, age_days)
                due = (days for days in (self._work_days, self._log_days) if days > age_days)
                self._due[run_id] = run.ended_at + min(due, default=inf) * _DAY_S
        if cleared:
            log.info("what %d attempts of ended runs had left had had its time", cleared)

    def _clear(self, run: Path, age_days: float) -> int:
        """Remove what of a run is older than it may be; how many attempts had such."""
        work_is_due, logs_are_due = age_days >= self._work_days, age_days >= self._log_days
        cleared = 0
        for attempt in _directories(str(run / "attempts")):
            told: dict[str, float] = {}
            if work_is_due and _clear_scratch(attempt):
                told["work"] = self._work_days
            if logs_are_due and _remove(f"{attempt}/{LOGS}"):
                told["logs"] = self._log_days
            if told:
                _note(attempt, told)
                cleared += 1
        if work_is_due:
            _remove_empty(run / "artifacts")
        return cleared


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
