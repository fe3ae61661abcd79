"""What every store guarantees of steps: whole or not at all, guarded, with their events and attempts."""

from __future__ import annotations

import pytest

from histories import attempt_of, new_run, placed, spec, step
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, IllegalStep, LeaveRequest, RunEvent, RunState
from tarmac.model.ports import Store
from tarmac.model.progress import Cause, CauseCode, CycleReport, Milestones, Outcome, Share
from tarmac.model.run import QueuePosition, Release, Retry, Run

E = RunEvent


@pytest.fixture
def store(step_store: Store) -> Store:
    return step_store


@pytest.fixture
def queued(store: Store) -> Run:
    (run,) = store.create_runs([new_run("r1")])
    return run


def kinds(store: Store, run_id: str = "r1") -> list[RunEvent]:
    return [event.event for event in store.events(run_id)]


# --- taking a step ----------------------------------------------------------------------------------


def test_a_step_changes_run_attempt_and_history_together(store: Store, queued: Run) -> None:
    start = placed(queued)
    assert store.apply([start]) == [True]
    assert store.run("r1") == start.after
    assert store.attempts("r1") == [start.attempt]
    assert store.live_attempts() == [start.attempt]
    assert kinds(store) == [E.ACCEPTED, E.STAGED, E.PLACED]


def test_every_field_that_a_step_may_change_is_kept(store: Store, queued: Run) -> None:
    cause = Cause(
        code=CauseCode.SIGNAL,
        message="m",
        role="main",
        replica=0,
        worker=1,
        node="n",
        signal="SIGKILL",
        tail=("a",),
    )
    changed = step(
        queued,
        E.PLACED,
        E.FAULTED,
        queued_at=1.5,
        started_at=2.5,
        cause=cause,
        code_digest="d",
        failures=1,
        faults=2,
        preemptions=3,
        turns=4,
        attained_slot_s=5.5,
        ran_s=6.5,
        queue_position=QueuePosition(priority=7, weight=0.5, position=8.5, pool="other"),
        share=Share(period_at=7200.0, allotted_s=9.5, rank=1, used_s=10.5, credit_s=11.5),
        retry=Retry(at=30.0, tries=2, end="abc"),
        cycle_report=CycleReport(turns=4, first_output_s=None, committed=True, resumed=False),
        attempt=attempt_of(
            queued,
            state=AttemptState.ENDED,
            started_at=1.0,
            ended_at=2.0,
            leave_request=LeaveRequest.STOP,
            leave_requested_at=1.5,
            outcome=Outcome.LOST,
            cause=cause,
            allotted_s=12.5,
            milestones=Milestones(first_output_at=1.1, checkpoint_at=1.2, read_at=1.3),
            released=(Release(role="main", replica=1, at=1.75), Release(role="main", replica=0, at=1.8)),
        ),
    )
    assert store.apply([changed]) == [True]
    assert store.run("r1") == changed.after
    assert store.attempts("r1") == [changed.attempt]
    assert store.live_attempts() == []


def test_attempts_are_replaced_whole_and_listed_by_number(store: Store, queued: Run) -> None:
    first = placed(queued)
    assert first.attempt is not None
    ended = replace(first.attempt, state=AttemptState.ENDED, ended_at=3.0, outcome=Outcome.LOST)
    back = step(first.after, E.FAULTED, attempt=ended)
    second = placed(back.after, 2)
    assert store.apply([first, back, second]) == [True, True, True]
    assert store.attempts("r1") == [ended, second.attempt]
    assert store.live_attempts() == [second.attempt]


def test_live_attempts_come_by_run_and_number(store: Store) -> None:
    runs = store.create_runs([new_run("r2"), new_run("r1")])
    store.apply([placed(run) for run in runs])
    assert [attempt.id for attempt in store.live_attempts()] == ["r1.1", "r2.1"]


def test_a_step_without_events_changes_the_attempt_alone(store: Store, queued: Run) -> None:
    start = placed(queued)
    store.apply([start])
    asked = attempt_of(queued, leave_request=LeaveRequest.PAUSE, leave_requested_at=5.0)
    assert store.apply([step(start.after, attempt=asked)]) == [True]
    assert store.attempts("r1") == [asked]
    assert store.run("r1") == start.after
    assert store.apply([step(queued, attempt=asked)]) == [False], "guarded all the same"


def test_several_events_are_one_step(store: Store, queued: Run) -> None:
    both = step(queued, E.PLACED, E.STARTED, attempt=attempt_of(queued, state=AttemptState.RUNNING))
    assert store.apply([both]) == [True]
    assert [(event.seq, event.event, event.state) for event in store.events("r1", after_seq=2)] == [
        (3, E.PLACED, RunState.STARTING),
        (4, E.STARTED, RunState.RUNNING),
    ]


def test_a_run_may_take_several_steps_in_one_transaction(store: Store, queued: Run) -> None:
    pause = step(queued, E.PAUSE_REQUESTED)
    resume = step(pause.after, E.RESUME_REQUESTED)
    assert store.apply([pause, resume]) == [True, True]
    assert store.run("r1") == resume.after


def test_a_share_is_granted_without_an_event_and_guards_what_follows(store: Store, queued: Run) -> None:
    """Two servers: what one decided on a share that the other has changed meanwhile is stale."""
    grant = step(queued, share=Share(period_at=0.0, allotted_s=60.0, rank=0))
    assert store.apply([grant]) == [True]
    assert store.run("r1") == grant.after
    assert kinds(store) == [E.ACCEPTED, E.STAGED]
    assert store.apply([grant]) == [False], "granted once"
    assert store.apply([placed(queued)]) == [False], "decided without knowing of it"
    assert store.apply([placed(grant.after)]) == [True]


def test_no_steps_are_no_write(store: Store) -> None:
    assert store.apply([]) == []


# --- guards -----------------------------------------------------------------------------------------


def test_a_stale_step_leaves_nothing_behind(store: Store, queued: Run) -> None:
    pause, start = step(queued, E.PAUSE_REQUESTED), placed(queued)
    assert store.apply([pause]) == [True]
    assert store.apply([start]) == [False]
    assert store.run("r1") == pause.after
    assert store.attempts("r1") == []
    assert kinds(store) == [E.ACCEPTED, E.STAGED, E.PAUSE_REQUESTED]


def test_stale_steps_do_not_hold_up_the_others(store: Store) -> None:
    runs = store.create_runs([new_run(f"r{number}") for number in range(6)])
    store.apply([step(run, E.PAUSE_REQUESTED) for run in runs[::2]])
    assert store.apply([placed(run) for run in runs]) == [False, True] * 3
    assert [attempt.run_id for attempt in store.live_attempts()] == ["r1", "r3", "r5"]
    assert [run.state for run in store.live_runs()] == [RunState.PAUSED, RunState.STARTING] * 3


def test_of_two_steps_from_the_same_record_one_is_taken(store: Store, queued: Run) -> None:
    assert store.apply([placed(queued), step(queued, E.STOP_REQUESTED)]) == [True, False]
    assert kinds(store) == [E.ACCEPTED, E.STAGED, E.PLACED]


def test_a_whole_list_of_steps_is_taken_or_none_of_it(store: Store) -> None:
    """D15."""
    one, two = store.create_runs([new_run("r1"), new_run("r2")])
    newest = store.last_event_id()
    stale = step(replace(two, seq=two.seq + 1), E.PAUSE_REQUESTED)
    assert store.apply([step(one, E.PAUSE_REQUESTED), stale], whole=True) == [False, False]
    assert (store.run("r1"), store.last_event_id()) == (one, newest)
    good = [step(one, E.PAUSE_REQUESTED), step(two, E.STOP_REQUESTED)]
    assert store.apply(good, whole=True) == [True, True]
    assert store.apply([], whole=True) == []


def test_a_step_of_a_run_that_is_not_there_is_stale(store: Store) -> None:
    assert store.apply([placed(new_run("ghost").run)]) == [False]
    assert store.attempts("ghost") == []
    assert store.last_event_id() == 0


def test_the_state_is_guarded_as_well_as_the_number(store: Store, queued: Run) -> None:
    """The table allows this step from what the caller believes; the stored run is in another state."""
    believed = replace(queued, state=RunState.PAUSED)
    assert store.apply([step(believed, E.RESUME_REQUESTED)]) == [False]
    assert store.apply([step(believed, attempt=attempt_of(queued))]) == [False]
    assert store.run("r1") == queued


# --- what is refused whole --------------------------------------------------------------------------


def illegal_steps(run: Run) -> list[RunStep]:
    start = placed(run)
    assert start.attempt is not None
    other = attempt_of(new_run("r2").run)
    return [
        replace(start, events=(replace(start.events[0], event=E.STARTED),)),
        replace(start, after=replace(start.after, state=RunState.RUNNING)),
        replace(start, after=replace(start.after, seq=run.seq)),
        replace(start, after=replace(start.after, seq=run.seq + 2)),
        replace(start, after=replace(start.after, id="r2")),
        replace(start, after=replace(start.after, user="mallory")),
        replace(start, after=replace(start.after, spec=spec(name="another"))),
        replace(start, after=replace(start.after, idempotency_key="k")),
        replace(start, after=replace(start.after, outcome=Outcome.LOST)),
        replace(start, attempt=other),
        replace(step(run), after=replace(run, attained_slot_s=1.0)),
    ]


@pytest.mark.parametrize("which", range(11))
def test_an_illegal_step_refuses_the_transaction(store: Store, queued: Run, which: int) -> None:
    (bystander,) = store.create_runs([new_run("r9")])
    newest = store.last_event_id()
    with pytest.raises(IllegalStep):
        store.apply([placed(bystander), illegal_steps(queued)[which]])
    assert store.run("r1") == queued
    assert store.run("r9") == bystander
    assert store.live_attempts() == []
    assert store.last_event_id() == newest


def test_an_ended_attempt_stays_ended(store: Store, queued: Run) -> None:
    start = placed(queued)
    ended = attempt_of(queued, state=AttemptState.ENDED, outcome=Outcome.LOST)
    store.apply([start, step(start.after, E.FAULTED, attempt=ended)])
    now = store.run("r1")
    assert now is not None
    with pytest.raises(IllegalStep):
        store.apply([step(now, E.PAUSE_REQUESTED, attempt=attempt_of(queued))])
    assert store.run("r1") == now, "refused whole"
    assert store.attempts("r1") == [ended]
    amended = replace(ended, cause=Cause(code=CauseCode.NODE_LOST, message="late news"))
    assert store.apply([step(now, attempt=amended)]) == [True], "but more may be learned of it"


# --- events -----------------------------------------------------------------------------------------


def test_events_carry_their_time_and_detail(store: Store, queued: Run) -> None:
    store.apply(
        [step(queued, E.PAUSE_REQUESTED, at=7.5, detail={"by": "ada\0", "nodes": ("a", "b"), "n": 1})]
    )
    accepted, staged, paused = store.events("r1")
    assert (accepted.seq, accepted.at, accepted.event, accepted.state) == (
        1,
        100.0,
        E.ACCEPTED,
        RunState.PENDING,
    )
    assert (staged.seq, staged.state, staged.detail) == (2, RunState.QUEUED, {})
    assert (paused.seq, paused.at, paused.run_id) == (3, 7.5, "r1")
    assert paused.detail == {"by": "ada\0", "nodes": ["a", "b"], "n": 1}
    assert store.events("r1", after_seq=2) == [paused]
    assert store.events("r1", after_seq=3) == []


def test_the_feed_has_every_event_once_in_order(store: Store) -> None:
    runs = store.create_runs([new_run("r1"), new_run("r2", events=())])
    store.apply([placed(runs[0]), step(runs[1], E.STOP_REQUESTED)])
    feed = store.feed(after_id=0)
    assert [(event.run_id, event.seq) for event in feed] == [
        ("r1", 1),
        ("r1", 2),
        ("r2", 1),
        ("r1", 3),
        ("r2", 2),
    ]
    assert [event.id for event in feed] == sorted({event.id for event in feed})
    assert store.last_event_id() == feed[-1].id
    assert store.feed(after_id=feed[1].id, limit=2) == feed[2:4]
    assert store.feed(after_id=feed[-1].id) == []
    assert store.feed(after_id=0, limit=0) == []
