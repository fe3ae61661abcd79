"""The transition tables: what follows from them, what a history must be, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from replaying import replay
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import (
    ATTEMPT_TABLE,
    INITIAL_EVENT,
    INITIAL_STATE,
    LIVE_STATES,
    OCCUPYING_STATES,
    RUN_TABLE,
    TERMINAL_STATES,
    AttemptState,
    IllegalStep,
    RunEvent,
    RunState,
    attempt_step,
    sources,
    step,
    steps,
)


@st.composite
def histories(draw):
    """A legal history, of any length."""
    state, events = INITIAL_STATE, [INITIAL_EVENT]
    for _ in range(draw(st.integers(0, 30))):
        if not RUN_TABLE[state]:
            break
        event = draw(st.sampled_from(sorted(RUN_TABLE[state])))
        events.append(event)
        state = RUN_TABLE[state][event]
    return events, state


@given(histories())
def test_replaying_a_history_gives_the_state_it_led_to(history):
    events, state = history
    assert replay(events) is state


@given(histories(), st.sampled_from(list(RunEvent)))
def test_an_event_is_refused_exactly_where_the_table_has_none(history, event):
    events, state = history
    if event in RUN_TABLE[state]:
        assert replay([*events, event]) is RUN_TABLE[state][event]
        return
    with pytest.raises(IllegalStep):
        replay([*events, event])


@given(histories(), st.integers(1, 30))
@settings(max_examples=examples(50))
def test_a_history_without_its_beginning_is_refused(history, missing):
    with pytest.raises(IllegalStep, match="begins with accepted"):
        replay(history[0][missing:] if history[0][missing:] else [])


@pytest.mark.parametrize("event", RunEvent)
def test_sources_are_the_table_read_backwards(event):
    assert sources(event) == {state for state in RunState if event in RUN_TABLE[state]}


def test_only_the_first_event_happens_nowhere_else():
    assert {event for event in RunEvent if not sources(event)} == {INITIAL_EVENT}


def test_a_run_ends_for_good():
    assert {RunState.ENDED} == TERMINAL_STATES
    assert set(RunState) - {RunState.ENDED} == LIVE_STATES
    for event in RunEvent:
        with pytest.raises(IllegalStep):
            step(RunState.ENDED, event)


def test_every_state_is_in_the_table_and_can_be_reached():
    assert set(RUN_TABLE) == set(RunState)
    reached, new = set(), {INITIAL_STATE}
    while new:
        reached |= new
        new = {following for state in new for following in RUN_TABLE[state].values()} - reached
    assert reached == set(RunState)


@pytest.mark.parametrize("state", sorted(LIVE_STATES - {RunState.STOPPING}))
def test_a_stop_is_possible_from_any_state_but_ended(state):
    assert step(state, RunEvent.STOP_REQUESTED) is (
        RunState.STOPPING if state in OCCUPYING_STATES else RunState.ENDED
    )


@pytest.mark.parametrize("state", sorted(LIVE_STATES))
def test_from_every_live_state_there_is_a_way_to_the_end(state):
    if state is not RunState.STOPPING:
        state = step(state, RunEvent.STOP_REQUESTED)
    assert state in TERMINAL_STATES or step(state, RunEvent.FINISHED) in TERMINAL_STATES


def test_a_run_has_a_live_attempt_from_its_placement_until_that_leaves():
    assert {
        RunState.SUBMITTED,
        RunState.STARTING,
        RunState.RUNNING,
        RunState.PAUSING,
        RunState.PREEMPTING,
        RunState.STOPPING,
    } == OCCUPYING_STATES
    assert {
        state for state in OCCUPYING_STATES for way in sources_of(state) if way not in OCCUPYING_STATES
    } == {RunState.SUBMITTED, RunState.STARTING}, "the only ways in are to be placed, or given to a cluster"


def sources_of(state):
    """The states from which a step leads to this one."""
    return {before for before, following in RUN_TABLE.items() if state in following.values()}


def test_whoever_changes_their_mind_while_pausing_is_queued_again():
    asked = [
        RunEvent.STAGED,
        RunEvent.PLACED,
        RunEvent.STARTED,
        RunEvent.PAUSE_REQUESTED,
        RunEvent.RESUME_REQUESTED,
    ]
    assert steps(INITIAL_STATE, [*asked, RunEvent.VACATED]) is RunState.QUEUED


@pytest.mark.parametrize(
    ("state", "event", "said"),
    [
        (
            RunState.RUNNING,
            RunEvent.RESUME_REQUESTED,
            "a run that is running cannot be resumed (it can be paused or stopped)",
        ),
        (
            RunState.PAUSED,
            RunEvent.PAUSE_REQUESTED,
            "a run that is paused cannot be paused (it can be resumed or stopped)",
        ),
        (
            RunState.PENDING,
            RunEvent.PAUSE_REQUESTED,
            "a run that is pending cannot be paused (it can be stopped)",
        ),
        (RunState.ENDED, RunEvent.STOP_REQUESTED, "a run that has ended cannot be stopped"),
    ],
)
def test_a_refused_step_says_in_words_what_is_possible(state, event, said):
    with pytest.raises(Refused) as refusal:
        step(state, event)
    assert str(refusal.value) == said
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("before", AttemptState)
@pytest.mark.parametrize("after", AttemptState)
def test_attempt_steps(before, after):
    if after in ATTEMPT_TABLE[before]:
        assert attempt_step(before, after) is after
    else:
        with pytest.raises(IllegalStep, match=f"an attempt that is {before} cannot become {after}"):
            attempt_step(before, after)


def test_an_attempt_only_goes_forward():
    order = [AttemptState.SUBMITTED, AttemptState.STARTING, AttemptState.RUNNING, AttemptState.ENDED]
    for index, state in enumerate(order):
        assert ATTEMPT_TABLE[state] == frozenset(order[index + 1 :])
