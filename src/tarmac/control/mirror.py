"""The live runs in memory: what the passes decide on, kept up to date instead of read anew.

Owned by `world.World`, which calls it under its lock. Every change that goes through this process is taken
up as it is committed; what other servers on the same database do arrives through the feed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tarmac.control.facts import candidate_of
from tarmac.model.changes import RunStep
from tarmac.model.lifecycle import OCCUPYING_STATES, TERMINAL_STATES, AttemptState, RunState
from tarmac.model.ports import Store
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Target
from tarmac.sched import Candidate, Demand

Shape = tuple[tuple[Demand, ...], Target]

SHAPES_KEPT = 10_000


class Mirror:
    """Live runs and their live attempts by run id, and the scheduler's view of the queued ones."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.attempts: dict[str, Attempt] = {}
        self.queue: dict[str, Candidate] = {}
        self.pending: dict[str, Run] = {}
        self.rehearsals: dict[str, Run] = {}
        self._last_event_id: int | None = None
        self._shapes: dict[Shape, Shape] = {}

    def refresh(self, store: Store) -> None:
        """Take up what others wrote; the first time, everything."""
        if self._last_event_id is None:
            self._load(store)
            return
        news: set[str] = set()
        while events := store.feed(after_id=self._last_event_id):
            self._last_event_id = events[-1].id
            for event in events:
                known = self.runs.get(event.run_id)
                if event.state in TERMINAL_STATES:
                    self._forget(event.run_id)
                elif known is None or known.seq < event.seq:
                    news.add(event.run_id)
        self.reload(store, news)

    def reload(self, store: Store, run_ids: Iterable[str]) -> None:
        """Read these runs again, as they are now."""
        wanted = sorted(set(run_ids))
        found = store.load_runs(wanted) if wanted else {}
        for run_id in wanted:
            run = found.get(run_id)
            if run is None:
                self._forget(run_id)
                continue
            attempts = store.attempts(run_id) if run.state in OCCUPYING_STATES else []
            self.take(run, attempts[-1] if attempts else None)

    def absorb(self, step: RunStep) -> None:
        """Take up a step that was just committed."""
        self.take(step.after, step.attempt or self.attempts.get(step.after.id))

    def take(self, run: Run, attempt: Attempt | None) -> None:
        """Take up a run as it stands, with its newest attempt if it has one."""
        self._forget(run.id)
        if run.state in TERMINAL_STATES:
            return
        self.runs[run.id] = run
        if run.spec.rehearsal is not None:
            self.rehearsals[run.id] = run
        if run.state is RunState.QUEUED:
            self.queue[run.id] = self._shared(candidate_of(run))
        elif run.state is RunState.PENDING:
            self.pending[run.id] = run
        if attempt is not None and attempt.state is not AttemptState.ENDED:
            self.attempts[run.id] = attempt

    def _shared(self, candidate: Candidate) -> Candidate:
        """The same candidate, sharing its request with those of the same shape."""
        if len(self._shapes) > SHAPES_KEPT:
            self._shapes.clear()
        shape = (candidate.demands, candidate.target)
        demands, target = self._shapes.setdefault(shape, shape)
        return replace(candidate, demands=demands, target=target)

    def _forget(self, run_id: str) -> None:
        for table in (self.runs, self.attempts, self.queue, self.pending, self.rehearsals):
            table.pop(run_id, None)

    def _load(self, store: Store) -> None:
        self._last_event_id = store.last_event_id()  # before the runs: what comes between is read twice
        attempts = {attempt.run_id: attempt for attempt in store.live_attempts()}
        for run in store.live_runs():
            self.take(run, attempts.get(run.id))
