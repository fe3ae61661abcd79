"""Nobody starves: whole lives of small clusters, in virtual time, run through `plan` alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from facts import BACKFILL_WINDOW_S, NOW, candidate, gang, nodes, replicas, snapshot
from lives import Life
from tarmac.sched import plan

LONGEST_S = 5_000.0


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
@settings(max_examples=examples(100), deadline=None)
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
    """Small runs come faster than they end; the big one waits the backfill window, then for the longest."""
    stream = [(NOW + 10 * step, candidate(f"s{step:05}", gang(1)), 400.0) for step in range(1000)]
    leave_requested_at = NOW + 25
    life = Life(nodes(2, 4), [(leave_requested_at, candidate("big", gang(8)), 1.0), *stream])
    life.run(until=lambda life: "big" in life.started_at)
    assert BACKFILL_WINDOW_S < life.started_at["big"] - leave_requested_at <= BACKFILL_WINDOW_S + 400
    passed = [at for run_id, at in life.started_at.items() if run_id != "big" and at > leave_requested_at]
    assert passed, "until then smaller ones passed it"
    assert max(passed) < leave_requested_at + BACKFILL_WINDOW_S


@pytest.mark.heavy
@given(
    st.lists(st.tuples(st.integers(2, 8), st.integers(1, 600)), min_size=1, max_size=4),
    st.booleans(),
    st.integers(300, 500),
)
@settings(max_examples=25, deadline=None)
def test_i11_the_wait_of_every_run_is_bounded_under_an_endless_stream(bigs, limited, longest_s):
    """Big runs, one after another, in a stream that would fill the cluster for ever, with limits or without.

    Each waits its backfill window at most once, and then for what is on its nodes and for those before it.
    """
    stream = [
        (
            NOW + 10 * step,
            candidate(f"s{step:05}", gang(1), time_limit_s=limit(longest_s, limited)),
            longest_s,
        )
        for step in range(1000)
    ]
    asked = [
        (NOW + 50 + index, candidate(f"big{index}", gang(size), time_limit_s=limit(long_s, limited)), long_s)
        for index, (size, long_s) in enumerate(bigs)
    ]
    life = Life(nodes(2, 4), [*asked, *stream])
    life.run(until=lambda life: all(run.run_id in life.started_at for _, run, _ in asked))
    bound_s = BACKFILL_WINDOW_S
    for at, run, long_s in asked:
        bound_s += longest_s
        if refused(run):
            continue
        assert life.started_at[run.run_id] - at <= bound_s
        bound_s += long_s


def limit(long_s, limited):
    return float(long_s) if limited else None


def refused(run):
    return bool(plan(snapshot(nodes(2, 4), [run]), NOW).refusals)


@given(st.integers(2, 5), st.lists(st.integers(1, 300), min_size=50, max_size=100))
@settings(max_examples=examples(30), deadline=None)
def test_m3_limited_runs_that_pass_never_delay_the_head(count, lengths):
    """With time limits known, the head starts when the forecast said, however many short ones pass it.

    They pass: the four slots beside the wall are in use while 300 s are left, which is 36 runs of 300 s.
    """
    where = nodes(count, 4)
    wall = [(NOW, candidate(f"w{index}", gang(4), time_limit_s=3000.0), 3000.0) for index in range(count - 1)]
    stream = [
        (NOW + 1 + index, candidate(f"s{index}", gang(1), time_limit_s=float(length)), length)
        for index, length in enumerate(lengths)
    ]
    life = Life(where, [*wall, (NOW, candidate("z-big", gang(4 * count)), 1.0), *stream]).run()
    assert life.started_at["z-big"] == NOW + 3000
    assert sum(at < NOW + 3000 for at in life.started_at.values()) >= len(wall) + 36
