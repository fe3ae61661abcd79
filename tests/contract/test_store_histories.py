"""Properties of any history: what is stored is what its events replay to, and nothing illegal gets in."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from histories import attempt_of, new_run, step
from replaying import replay
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import (
    LIVE_STATES,
    RUN_TABLE,
    IllegalStep,
    RunEvent,
    RunState,
    sources,
    steps,
)
from tarmac.model.ports import Store
from tarmac.model.progress import Outcome, StepEvent
from tarmac.model.run import Run

QUICK = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
PATHS: dict[RunState, tuple[RunEvent, ...]] = {RunState.PENDING: ()}
"""A shortest way from acceptance to every state."""

_serial = count()


def _walk() -> None:
    frontier = [RunState.PENDING]
    for state in frontier:
        for event, following in RUN_TABLE[state].items():
            if following not in PATHS:
                PATHS[following] = (*PATHS[state], event)
                frontier.append(following)


_walk()

ILLEGAL = [(state, event) for state in RunState for event in RunEvent if event not in RUN_TABLE[state]]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[RunEvent, ...]]:
    """A legal history after acceptance, cut into steps of one to three events."""
    state, parts = RunState.PENDING, []
    for length in draw(st.lists(st.integers(1, 3), max_size=8)):
        part: list[RunEvent] = []
        while len(part) < length and RUN_TABLE[state]:
            part.append(draw(st.sampled_from(sorted(RUN_TABLE[state]))))
            state = steps(state, part[-1:])
        if part:
            parts.append(tuple(part))
    return parts


@QUICK
@given(parts=histories(), stale=st.sets(st.integers(0, 7)), together=st.booleans())
def test_a_history_replays_to_what_is_stored(
    lasting_store: Store, parts: list[tuple[RunEvent, ...]], stale: set[int], together: bool
) -> None:
    store = lasting_store
    run = accept(store)
    legal: list[RunStep] = []
    for part in parts:
        legal.append(step(run, *part, attempt=attempt_of(run, number=len(legal) + 1)))
        run = legal[-1].after
    if together:
        assert store.apply(legal) == [True] * len(legal)
    for number, good in enumerate(legal):
        if not together:
            assert store.apply([good]) == [True]
        if number in stale:
            assert store.apply([good]) == [False], "a step is never taken twice"
    assert_replays(store, run)


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_illegal_step_is_refused_by_table_and_by_guard(
    lasting_store: Store, state: RunState, event: RunEvent
) -> None:
    """The guard is reached by a lie about the state before: the step is legal from there, at the same seq."""
    store = lasting_store
    run = accept(store, state)
    honest = RunStep(
        before=run,
        after=replace(run, seq=run.seq + 1),
        events=(StepEvent(event=event, at=1.0),),
    )
    with pytest.raises(IllegalStep):
        store.apply([honest])
    for believed in sorted(sources(event)):
        lie = step(replace(run, state=believed, outcome=None), event, attempt=attempt_of(run))
        assert store.apply([lie]) == [False]
    assert store.attempts(run.id) == []
    assert_replays(store, run)


def test_every_state_can_be_reached() -> None:
    assert PATHS.keys() == set(RunState)


def accept(store: Store, state: RunState = RunState.PENDING) -> Run:
    """A stored run in this state."""
    (run,) = store.create_runs([new_run(f"p{next(_serial):06}", events=())])
    if state is not RunState.PENDING:
        reached = step(run, *PATHS[state])
        assert store.apply([reached]) == [True]
        run = reached.after
    return run


def assert_replays(store: Store, expected: Run) -> None:
    """The stored run is the expected one, and its events lead there."""
    stored = store.run(expected.id)
    events = store.events(expected.id)
    assert stored == expected
    assert replay(event.event for event in events) is stored.state
    assert [event.seq for event in events] == list(range(1, stored.seq + 1))
    for length, event in enumerate(events, start=1):
        assert replay(earlier.event for earlier in events[:length]) is event.state
    assert (expected.outcome is Outcome.STOPPED) == (expected.state not in LIVE_STATES)
