"""Removes files of ended runs by age: first their working directories, later their logs.

It also removes unused copies of code and programs that an engine has sent to a site.

A thread calls every engine periodically, each in its own thread, so that an unresponsive engine does not
delay the others. It never removes files of live runs, nor records, events, metrics and artifacts.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from threading import Thread

from tarmac.model.abilities import KeepsFiles
from tarmac.model.errors import TarmacError
from tarmac.model.ports import Clock, Store

ANSWER_S = 5.0
"""The time that `tidy` waits for the engines; their work continues afterwards."""

LEAST_DAYS = 1 / 24
"""A lower bound for copies: a copy sent within this time may be needed soon."""

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
