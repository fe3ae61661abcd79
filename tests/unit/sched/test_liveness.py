"""Nobody starves: whole lives of small clusters, in virtual time, run through `plan` alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from facts import NOW, candidate, gang, nodes, replicas, snapshot
from tarmac.sched import Holding, plan
from tarmac.sched.deciding import PATIENCE_S

LONGEST_S = 5_000.0


class Life:
    """A cluster, what is submitted to it and when, and how long each run takes."""

    def __init__(self, where, submissions):
        """`submissions`: (time, candidate, duration) each."""
        self.where = where
        self.coming = sorted(submissions, key=lambda item: (item[0], item[1].run_id), reverse=True)
        self.duration_s = {run.run_id: duration_s for _, run, duration_s in submissions}
        self.queue = {}
        self.holdings = {}
        self.started_at = {}
        self.now = NOW

    def run(self, until=None):
        """Live until nothing happens any more, or `until` holds."""
        while not (until and until(self)):
            self._plan()
            moment = self._next()
            if moment is None:
                return self
            self.now = moment
            self._arrive()
            self._end()
        return self

    def _plan(self):
        facts = snapshot(self.where, tuple(self.queue.values()), tuple(self.holdings.values()))
        for placement in plan(facts, self.now).placements:
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

    def _next(self):
        moments = [self._ends_at(run_id) for run_id in self.holdings]
        moments += [self.coming[-1][0]] if self.coming else []
        return min(moments, default=None)

    def _arrive(self):
        while self.coming and self.coming[-1][0] <= self.now:
            at, run, _ = self.coming.pop()
            self.queue[run.run_id] = replace(run, submitted_at=at, queued_at=at)

    def _end(self):
        for run_id in [run_id for run_id in self.holdings if self._ends_at(run_id) <= self.now]:
            del self.holdings[run_id]

    def _ends_at(self, run_id):
        return self.started_at[run_id] + self.duration_s[run_id]


some_submissions = st.lists(
    st.tuples(
        st.one_of(
            st.integers(1, 12).map(gang),
            st.builds(replicas, st.integers(1, 4), st.integers(0, 4)),
        ),
        st.integers(0, 1000),
        st.integers(1, int(LONGEST_S)),
        st.integers(-1, 1),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@given(st.integers(1, 4), st.integers(4, 6), some_submissions)
@settings(max_examples=100, deadline=None)
def test_liveness_every_admitted_run_starts_under_finite_load(count, slots, submissions):
    where = nodes(count, slots)
    submitted = []
    for index, (demand, delay_s, duration_s, priority, limited) in enumerate(submissions):
        limit_s = float(duration_s) if limited else None
        run = candidate(f"r{index}", demand, priority=priority, time_limit_s=limit_s)
        submitted.append((NOW + delay_s, run, duration_s))
    life = Life(where, submitted).run()
    refused = {item.run_id for item in plan(snapshot(where, [run for _, run, _ in submitted]), NOW).refusals}
    assert life.started_at.keys() == {run.run_id for _, run, _ in submitted} - refused
    assert life.queue.keys() == refused


def test_m3_a_big_run_starts_in_bounded_time_under_an_endless_stream_of_small_ones():
    """Small runs come faster than they end; the big one waits its patience, then for the longest of them."""
    stream = [(NOW + 10 * step, candidate(f"s{step:05}", gang(1)), 400.0) for step in range(1000)]
    asked_at = NOW + 25
    life = Life(nodes(2, 4), [(asked_at, candidate("big", gang(8)), 1.0), *stream])
    life.run(until=lambda life: "big" in life.started_at)
    assert PATIENCE_S < life.started_at["big"] - asked_at <= PATIENCE_S + 400
    passed = [at for run_id, at in life.started_at.items() if run_id != "big" and at > asked_at]
    assert passed, "until then smaller ones passed it"
    assert max(passed) < asked_at + PATIENCE_S


@given(st.integers(2, 5), st.lists(st.integers(1, 300), min_size=50, max_size=100))
@settings(max_examples=30, deadline=None)
def test_m3_limited_runs_that_pass_never_delay_the_head(count, lengths):
    """With time limits known, the head starts when the forecast said, however many short ones pass it."""
    where = nodes(count, 4)
    wall = [(NOW, candidate(f"w{index}", gang(4), time_limit_s=3000.0), 3000.0) for index in range(count - 1)]
    stream = [
        (NOW + PATIENCE_S + 1 + index, candidate(f"s{index}", gang(1), time_limit_s=float(length)), length)
        for index, length in enumerate(lengths)
    ]
    life = Life(where, [*wall, (NOW, candidate("z-big", gang(4 * count)), 1.0), *stream]).run()
    assert life.started_at["z-big"] == NOW + 3000
    assert all(life.started_at[f"s{index}"] < NOW + 3000 for index in range(5))
