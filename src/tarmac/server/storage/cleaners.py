"""Remove old files: of ended runs, first their working directories, later their logs; and code snapshots.

`AttemptCleaner` also removes unused copies of code and programs that an engine has sent to a site. A thread
calls every engine periodically, each in its own thread, so that an unresponsive engine does not delay the
others. It never removes files of live runs, nor records, events, metrics and artifacts. `CodeCleaner` never
removes snapshots that a live run needs, or recently used ones. A `Janitor` calls such a clean-up
periodically, in its own thread.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from threading import Event, Thread

from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.abilities import KeepsFiles
from tarmac.model.errors import TarmacError
from tarmac.model.ports import Clock, Store
from tarmac.model.spec import LocalDirectory

ANSWER_S = 5.0
"""The time that `tidy` waits for the engines; their work continues afterwards."""

LEAST_DAYS = 1 / 24
"""A lower bound for copies: a copy sent within this time may be needed soon."""

LEAST_AGE_S = 3_600.0
"""A lower bound: code sent within this time may be submitted soon."""

UNFINISHED_S = 86_400.0
"""The retention of an interrupted upload's packs, so that the upload can continue."""

_DAY_S = 86_400.0

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AttemptCleaner:
    """Removes old files of ended runs. `engines` are those that can remove files, by cluster.

    `work_days` and `log_days`: the retention of working directories and logs after the end of a run;
    `code_days`: that of code copies at a site, after their last use.
    """

    store: Store
    clock: Clock
    engines: Callable[[], Mapping[str, KeepsFiles]]
    work_days: float
    log_days: float
    code_days: float = 30.0
    answer_s: float = ANSWER_S
    _due: dict[str, dict[str, float]] = field(default_factory=dict, init=False)
    _busy: dict[str, Thread] = field(default_factory=dict, init=False)

    def tidy(self) -> None:
        """Start the removal of old files in every engine, and wait for `answer_s` at most."""
        engines = self.engines()
        self._busy = {key: thread for key, thread in self._busy.items() if thread.is_alive()}
        for key in engines.keys() - self._busy.keys():
            self._busy[key] = Thread(target=self._tidy, args=(key, engines[key]), daemon=True)
            self._busy[key].start()
        deadline = time.monotonic() + self.answer_s
        for thread in self._busy.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _tidy(self, key: str, engine: KeepsFiles) -> None:
        """Remove old files of one engine; it loads a run only if some of its files are due."""
        now = self.clock.now()
        live = {run.id for run in self.store.live_runs()}
        count = copies = 0
        try:
            remains = frozenset(engine.remains())
            due = {run_id: at for run_id, at in self._due.get(key, {}).items() if run_id in remains}
            candidates = sorted(run_id for run_id in remains - live if due.get(run_id, now) <= now)
            for run_id, run in self.store.load_runs(candidates).items():
                if run.ended_at is not None:
                    age_days = (now - run.ended_at) / _DAY_S
                    count += self._clear(engine, run_id, age_days)
                    later = (days for days in (self.work_days, self.log_days) if days > age_days)
                    due[run_id] = run.ended_at + min(later, default=inf) * _DAY_S
            self._due[key] = due
            copies = engine.clear_copies(live, unused_days=max(self.code_days, LEAST_DAYS))
        except (TarmacError, OSError) as error:
            where = f"cluster {key}" if key else "this server"
            log.warning("old files of runs on %s could not be removed: %s", where, error)
        if count:
            log.info("removed old files of %d attempts", count)
        if copies:
            log.info("removed %d copies of code and programs from cluster %s", copies, key)

    def _clear(self, engine: KeepsFiles, run_id: str, age_days: float) -> int:
        """Remove the old files of a run; returns the number of affected attempts."""
        work_days = self.work_days if age_days >= self.work_days else None
        log_days = self.log_days if age_days >= self.log_days else None
        if work_days is None and log_days is None:
            return 0
        return engine.clear(run_id, work_days=work_days, log_days=log_days)


@dataclass(frozen=True, slots=True)
class CodeCleaner:
    """Removes old snapshots. `keep_days`: the retention of a snapshot after its last use."""

    code: DirectoryCodeStore
    store: Store
    clock: Clock
    keep_days: float

    def tidy(self) -> None:
        """Remove old snapshots and packs."""
        now = self.clock.now()
        needed: set[str | None] = set()
        for run in self.store.live_runs():
            needed.add(run.code_digest)
            needed.add(run.spec.code.digest if isinstance(run.spec.code, LocalDirectory) else None)
        self.code.use({digest for digest in needed if digest is not None}, now=now)
        age_s = max(self.keep_days * _DAY_S, LEAST_AGE_S)
        removed = self.code.remove_unused(snapshots_before=now - age_s, packs_before=now - UNFINISHED_S)
        if removed:
            log.info("code: removed %d old snapshots and packs", removed)


class Janitor:
    """Calls `tidy` every `every_s` between `start` and `stop`, also after a failed call.

    It first calls `begin`, with the event that `stop` sets; `what` names the work in the log.
    """

    def __init__(
        self,
        what: str,
        tidy: Callable[[], None],
        *,
        every_s: float = 3_600.0,
        begin: Callable[[Event], None] = lambda _ending: None,
    ) -> None:
        self._what = what
        self._tidy = tidy
        self._every_s = every_s
        self._begin = begin
        self._ending = Event()
        self._thread = Thread(target=self._tidy_again, name=f"tarmac-{what}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for it."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _tidy_again(self) -> None:
        self._begin(self._ending)
        while not self._ending.wait(self._every_s):
            try:
                self._tidy()
            except (TarmacError, OSError) as error:
                log.warning("%s could not be cleared up: %s", self._what, error)
            except Exception:  # a bug or damaged data must not end the thread
                log.exception("clearing up %s failed", self._what)
