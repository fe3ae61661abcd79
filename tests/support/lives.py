"""Whole lives of small clusters in virtual time, through the scheduler alone: one ledger, kept up to date."""

from __future__ import annotations

from collections.abc import Callable

from facts import NOW, snapshot
from tarmac.model.codec import replace
from tarmac.sched import Candidate, Holding, Ledger, Plan


class Life:
    """A cluster, what is submitted to it and when, and how long each run takes."""

    def __init__(self, where, submissions: list[tuple[float, Candidate, float]], pools=()) -> None:
        """`submissions`: (time, candidate, duration) each."""
        self.ledger = Ledger(replace(snapshot(where), pools=pools))
        self.coming = sorted(submissions, key=lambda item: (item[0], item[1].run_id), reverse=True)
        self.duration_s = {run.run_id: duration_s for _, run, duration_s in submissions}
        self.queue: dict[str, Candidate] = {}
        self.holdings: dict[str, Holding] = {}
        self.started_at: dict[str, float] = {}
        self.now = NOW

    def run(
        self,
        until: Callable[[Life], bool] | None = None,
        before: Callable[[Life, Plan], None] | None = None,
    ) -> Life:
        """Live until nothing happens any more, or `until` holds; `before` sees each plan first."""
        while not (until and until(self)):
            made = self.ledger.plan(self.now)
            if before:
                before(self, made)
            self._start(made)
            moment = self._next()
            if moment is None:
                return self
            self.now = moment
            self._arrive()
            self._end()
        return self

    def _start(self, made: Plan) -> None:
        for placement in made.placements:
            run = self.queue.pop(placement.run_id)
            self.started_at[run.run_id] = self.now
            self.holdings[run.run_id] = Holding(
                candidate=run,
                allocation=placement.allocation,
                granted_at=self.now,
                started_at=self.now,
                checkpoint_at=None,
                leaving=False,
            )
            self.ledger.hold(self.holdings[run.run_id])

    def _next(self) -> float | None:
        moments = [self._ends_at(run_id) for run_id in self.holdings]
        moments += [self.coming[-1][0]] if self.coming else []
        return min(moments, default=None)

    def _arrive(self) -> None:
        while self.coming and self.coming[-1][0] <= self.now:
            at, run, _ = self.coming.pop()
            self.queue[run.run_id] = replace(run, submitted_at=at, queued_at=at)
            self.ledger.queue(self.queue[run.run_id])

    def _end(self) -> None:
        for run_id in [run_id for run_id in self.holdings if self._ends_at(run_id) <= self.now]:
            del self.holdings[run_id]
            self.ledger.forget(run_id)

    def _ends_at(self, run_id: str) -> float:
        return self.started_at[run_id] + self.duration_s[run_id]
