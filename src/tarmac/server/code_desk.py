"""What runs brought and left behind, cleared up by age: code snapshots, work directories of ended runs.

Made by `wiring`; a thread of its own looks now and then. What a run that has not ended needs is never
touched, and a snapshot that somebody used lately neither.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.ports import Clock, Store
from tarmac.model.spec import LocalDirectory
from tarmac.node import untrusted
from tarmac.node.protocol import NODES, WORK
from tarmac.server.tidier import Tidier

TIDY_EVERY_S = 3_600.0
LEAST_AGE_S = 3_600.0
"""However few days are set: what was sent this hour may be about to be submitted."""

UNFINISHED_S = 86_400.0
"""How long what an upload that broke off has sent is kept, so that it can go on."""

_DAY_S = 86_400.0

log = logging.getLogger(__name__)


class CodeDesk:
    """Removes what has had its time. `runs` is where the engine keeps the directories of runs.

    `keep_days`: how long after its last use a snapshot is kept; `work_days`: how long after its end the work
    directories of a run are (None: always).
    """

    def __init__(
        self,
        code: DirectoryCodeStore,
        store: Store,
        clock: Clock,
        *,
        runs: Path,
        keep_days: float | None,
        work_days: float | None,
    ) -> None:
        self._code = code
        self._store = store
        self._clock = clock
        self._runs = runs
        self._keep_days = keep_days
        self._work_days = work_days
        self.tidier = Tidier("code", self.tidy, every_s=TIDY_EVERY_S)

    def tidy(self) -> None:
        """Remove what has had its time."""
        live = self._store.live_runs()
        now = self._clock.now()
        if self._keep_days is not None:
            sent = [run.spec.code.digest for run in live if isinstance(run.spec.code, LocalDirectory)]
            needed = {digest for digest in (*sent, *(run.code_digest for run in live)) if digest is not None}
            self._code.use(needed, now=now)
            age_s = max(self._keep_days * _DAY_S, LEAST_AGE_S)
            removed = self._code.remove_unused(snapshots_before=now - age_s, packs_before=now - UNFINISHED_S)
            if removed:
                log.info("code: %d snapshots and packs had had their time", removed)
        if self._work_days is not None:
            cleared = self._clear_work({run.id for run in live}, before=now - self._work_days * _DAY_S)
            if cleared:
                log.info("work directories of %d attempts had had their time", cleared)

    def _clear_work(self, live: set[str], *, before: float) -> int:
        """Remove the work directories of the runs that ended before a time; logs and events stay."""
        found = {path.name: path for path in self._ended_candidates(live)}
        ended = self._store.load_runs(sorted(found))
        cleared = 0
        for run_id, run in ended.items():
            if run.ended_at is None or run.ended_at >= before:
                continue
            for work in _work_directories(found[run_id]):
                with suppress(OSError):  # in use, or another user's: it stays
                    untrusted.remove_tree(work)
                    cleared += 1
        return cleared

    def _ended_candidates(self, live: set[str]) -> Iterator[Path]:
        """The directories of runs that are not live and still have something to clear."""
        if not self._runs.is_dir():
            return
        for path in self._runs.iterdir():
            if path.name not in live and next(_work_directories(path), None) is not None:
                yield path


def _work_directories(run: Path) -> Iterator[str]:
    """Those of a run. It could put a link anywhere in between, which would lead to somebody else's."""
    for attempt in _directories(str(run / "attempts")):
        for node in _directories(f"{attempt}/{NODES}"):
            yield from (path for path in _directories(node) if path.endswith(f"/{WORK}"))


def _directories(path: str) -> list[str]:
    """The directories in one that is no link itself."""
    try:
        if Path(path).is_symlink():
            return []
        with os.scandir(path) as found:
            return [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
