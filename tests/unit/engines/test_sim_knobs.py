"""The simulated engine's knobs: what a test can make the world do, and what the world notices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_harness import capacity, make_launch
from sim_engine import Behaviour, Moment, SimEngine
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.cluster import Node, NodeState
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import CauseCode, Milestones, Outcome

NODES = [
    Node(name=f"node{number}", cluster="local", address="10.0.0.1", hostname="n", capacity=capacity(1))
    for number in (1, 2)
]


class World:
    """A clock and an engine whose attempts behave as `behaviour` says now."""

    def __init__(self, **behaviour: object) -> None:
        self.clock = VirtualClock(100.0)
        self.behaviour = Behaviour(**behaviour)
        self.engine = SimEngine(self.clock, NODES, behaviour=lambda _launch: self.behaviour)

    def submit(self, **wanted: object) -> str:
        launch = make_launch(("work",), **wanted)
        self.engine.submit(self.engine.render(launch))
        return launch.attempt_id

    def see(self, attempt: str) -> Observation:
        return self.engine.observe([attempt])[attempt]


def test_an_attempt_goes_on_from_the_last_checkpoint_of_those_before_it() -> None:
    world = World(duration_s=100.0, checkpoint_period_s=10.0, vanishes_after_s=35.0)
    first = world.submit()
    world.clock.advance(40.0)
    assert world.see(first).outcome is Outcome.LOST
    assert world.engine.progress_s("run1") == 30.0
    world.behaviour = replace(world.behaviour, vanishes_after_s=None)
    second = world.submit(number=2)
    world.clock.advance(69.0)
    assert world.see(second).state is ObservedState.RUNNING
    world.clock.advance(1.0)
    assert world.see(second).outcome is Outcome.COMPLETED


def test_one_that_leaves_as_asked_saves_all_it_did_and_one_that_does_not_only_its_checkpoints() -> None:
    for ignores, saved_s in ((False, 17.0), (True, 30.0)):
        world = World(duration_s=100.0, checkpoint_period_s=10.0, ignores_requests=ignores)
        attempt = world.submit(grace_s=20.0)
        world.clock.advance(17.0)
        world.engine.request_leave(attempt, LeaveRequest.PAUSE)
        world.clock.advance(20.0)
        assert world.see(attempt).outcome is Outcome.PAUSED
        assert world.engine.progress_s("run1") == saved_s


def test_what_the_nodes_see_of_an_attempt_is_told_while_it_runs() -> None:
    """I11: the first output, the newest whole checkpoint, and whether one of an earlier attempt was read."""
    world = World(duration_s=100.0, checkpoint_period_s=10.0, first_output_s=3.0)
    first = world.submit()
    world.clock.advance(2.0)
    assert world.see(first).milestones == Milestones()
    world.clock.advance(25.0)
    assert world.see(first).milestones == Milestones(first_output_at=103.0, checkpoint_at=120.0)
    world.engine.request_leave(first, LeaveRequest.PREEMPT)
    world.clock.advance(1.0)
    assert world.see(first).milestones.checkpoint_at == 127.0, "it saves its state on the way out"
    second = world.submit(number=2)
    world.clock.advance(1.0)
    assert world.see(second).milestones == Milestones(read_at=128.0)


def test_without_checkpoints_every_attempt_begins_anew() -> None:
    world = World(duration_s=10.0)
    attempt = world.submit()
    world.clock.advance(9.0)
    world.engine.request_leave(attempt, LeaveRequest.PREEMPT)
    world.clock.advance(1.0)
    assert world.see(attempt).outcome is Outcome.PREEMPTED
    assert world.engine.progress_s("run1") == 0.0


def test_what_has_finished_by_its_own_word_is_complete_though_it_was_asked() -> None:
    world = World(duration_s=10.0, leave_s=15.0, finished=True)
    attempt = world.submit()
    world.clock.advance(5.0)
    world.engine.request_leave(attempt, LeaveRequest.PAUSE)
    world.clock.advance(5.0)
    assert world.see(attempt).outcome is Outcome.COMPLETED


def test_for_a_while_nobody_can_tell() -> None:
    world = World(duration_s=100.0, unknown_from_s=10.0, unknown_for_s=20.0)
    attempt = world.submit()
    seen = []
    while (upcoming := world.clock.next_event_at()) is not None:
        world.clock.advance_to(upcoming)
        seen.append(world.see(attempt).state)
    assert seen == [
        ObservedState.RUNNING,
        ObservedState.UNKNOWN,
        ObservedState.RUNNING,
        ObservedState.ENDED,
    ]


def test_news_may_be_slow_but_never_wrong() -> None:
    world = World(duration_s=10.0)
    world.engine = SimEngine(world.clock, NODES, behaviour=lambda _: world.behaviour, news_delay_s=3.0)
    told: list[tuple[float, str]] = []
    world.engine.subscribe(lambda attempt: told.append((world.clock.now(), attempt)))
    attempt = world.submit()
    world.clock.advance(2.0)
    assert world.see(attempt).state is ObservedState.STARTING
    world.clock.advance(10.0)
    assert world.see(attempt).state is ObservedState.RUNNING
    assert attempt not in world.engine.live()
    world.clock.advance(1.0)
    assert world.see(attempt).ended_at == 110.0
    assert told == [(103.0, attempt), (113.0, attempt)]


@pytest.mark.parametrize("moment", list(Moment))
def test_a_call_may_be_interrupted_before_or_after_it_took_effect(moment: Moment) -> None:
    world = World(duration_s=100.0)

    def crash(at: Moment, _attempt: str) -> None:
        if at is moment:
            raise KeyboardInterrupt

    if moment not in (Moment.BEFORE_SUBMIT, Moment.AFTER_SUBMIT):
        world.submit()
    world.engine.interrupt = crash
    call = {
        "submit": world.submit,
        "request": lambda: world.engine.request_leave("run1.1", LeaveRequest.STOP),
        "reap": lambda: world.engine.reap("run1.1"),
    }[moment.rpartition("_")[2]]
    with pytest.raises(KeyboardInterrupt):
        call()
    took_effect = moment.startswith("after")
    if "submit" in moment:
        assert (world.see("run1.1").state is not ObservedState.ABSENT) is took_effect
    else:
        assert (world.see("run1.1").state is ObservedState.ENDED) is took_effect


def test_an_engine_out_of_reach_takes_nothing() -> None:
    world = World()
    world.engine.unreachable = True
    for call in (
        world.submit,
        lambda: world.see("run1.1"),
        lambda: world.engine.request_leave("run1.1", LeaveRequest.STOP),
        lambda: world.engine.reap("run1.1"),
    ):
        with pytest.raises(Unavailable):
            call()
    world.engine.unreachable = False
    assert world.see("run1.1").state is ObservedState.ABSENT


def test_what_runs_on_a_lost_node_is_lost_with_it() -> None:
    world = World(duration_s=100.0)
    both = world.submit(nodes=2)
    world.clock.advance(5.0)
    world.engine.set_node("node2", NodeState.LOST)
    seen = world.see(both)
    assert (seen.outcome, seen.ended_at) == (Outcome.LOST, 105.0)
    assert seen.cause is not None
    assert (seen.cause.code, seen.cause.node) == (CauseCode.NODE_LOST, "node2")
    assert [node.state for node in world.engine.nodes()] == [NodeState.UP, NodeState.LOST]


def test_the_world_notices_what_must_never_happen() -> None:
    world = World(duration_s=100.0)
    world.submit()
    world.submit(run_id="run2")
    assert world.engine.violations == ["run2.1 took slot 0 of node1, which run1.1 held"]
    world.submit(number=2)
    assert "run1.2 began while run1.1 lived" in world.engine.violations
    assert world.engine.live() == {"run1.1", "run1.2", "run2.1"}


def test_a_dead_control_plane_hears_nothing_more() -> None:
    world = World()
    told: list[str] = []
    world.engine.subscribe(told.append)
    world.engine.disconnect()
    world.submit()
    world.clock.advance(100.0)
    assert told == []


def test_the_clock_calls_in_order_at_the_right_time_and_never_goes_back() -> None:
    clock = VirtualClock(10.0)
    told: list[tuple[str, float]] = []
    clock.call_at(30.0, lambda: told.append(("late", clock.now())))
    clock.call_at(20.0, lambda: told.append(("first", clock.now())))
    clock.call_at(20.0, lambda: told.append(("second", clock.now())))
    gone = clock.call_at(15.0, lambda: told.append(("cancelled", clock.now())))
    gone.callback = None
    assert clock.next_event_at() == 20.0
    clock.advance_to(5.0)
    assert clock.now() == 10.0
    clock.advance(15.0)
    assert told == [("first", 20.0), ("second", 20.0)]
    assert clock.now() == 25.0
    clock.advance_to(30.0)
    assert told[-1] == ("late", 30.0)
    assert clock.next_event_at() is None
