"""Estimates the starts of queued runs from the durations of past runs. Owned by `control_state`.

Ended runs are learnt only on request, outside the lock of the scheduler: an estimate takes longer than a
plan, and delays neither plans nor submissions.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping

from tarmac.model.lifecycle import RunState
from tarmac.model.ports import Store
from tarmac.model.run import CauseCode, Outcome, Run
from tarmac.model.spec import Mode
from tarmac.model.summary import RunQuery
from tarmac.sched import Durations, Estimate, Finished, Scope, estimates

LEARNT_AT_FIRST = 2000
"""The number of last ended runs that the first request reads."""

MOST_UNLEARNT = 10_000
"""The maximum of ended runs remembered until a request."""

_NOT_ITS_OWN = frozenset(
    {CauseCode.NEVER_FITS, CauseCode.BUSY, CauseCode.CODE_UNREADABLE, CauseCode.PLATFORM_FAULT}
)


class Estimator:
    """Durations of runs, learnt from ended ones; may be used by any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._durations: Durations | None = None
        self._unlearnt: deque[Run] = deque(maxlen=MOST_UNLEARNT)

    def note(self, runs: Iterable[Run]) -> None:
        """Record runs that have just ended."""
        self._unlearnt.extend(runs)

    def learn(self) -> None:
        """Learn from the runs that ended so far, and from now on from every end."""
        with self._lock:
            self._learn()

    def estimates(self, scope: Scope, now: float) -> Mapping[str, Estimate]:
        """The likely start of each requested run of the scope."""
        with self._lock:
            return estimates(scope, now, durations=self._learn())

    def _learn(self) -> Durations:
        if self._durations is None:
            self._unlearnt.clear()  # they are among those that are read
            self._durations = Durations()
            self._unlearnt.extendleft(self._ended())
        while self._unlearnt:
            finished = finished_of(self._unlearnt.popleft())
            if finished is not None:
                self._durations.add(finished)
        return self._durations

    def _ended(self) -> Iterable[Run]:
        """The last ended runs, newest first."""
        query = RunQuery(states=frozenset({RunState.ENDED}), limit=LEARNT_AT_FIRST)
        ids = [summary.id for summary in self._store.runs(query)]
        found = self._store.load_runs(ids)
        return [found[run_id] for run_id in ids if run_id in found]


def finished_of(run: Run) -> Finished | None:
    """The duration data of an ended run; None if it has none."""
    by_itself = run.outcome in (Outcome.COMPLETED, Outcome.FAILED)
    if not by_itself or run.started_at is None or run.ended_at is None or run.spec.mode is Mode.CYCLE:
        return None
    if run.cause is not None and run.cause.code in _NOT_ITS_OWN:
        return None
    slots = run.spec.slots
    return Finished(
        owner=run.user,
        project=run.project,
        name=run.name,
        slots=slots,
        ran_s=run.attained_slot_s / slots if slots else run.ended_at - run.started_at,
        time_limit_s=run.spec.time_limit_s,
    )
