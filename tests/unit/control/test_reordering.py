"""Places in the queue given by a person: what each change does, what is refused, and lists made whole."""

from __future__ import annotations

from itertools import pairwise

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac import api
from tarmac.control.queue.queueing import QueueChange
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.model.cluster import Cluster, NodeGroup, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import Mode, RunEvent, RunState
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.model.spec import Rehearsal, Target

SITE = Cluster(
    name="site",
    groups=(
        NodeGroup(nodes=1, slots=4, pool="plain"),
        NodeGroup(nodes=1, slots=4, pool="other", prefix="other"),
        NodeGroup(nodes=1, slots=4, pool="fair", prefix="fair"),
        NodeGroup(nodes=1, slots=4, pool="young", prefix="young"),
        NodeGroup(nodes=1, slots=1, pool="small", prefix="small"),
    ),
    pools=(
        Pool(cluster="site", name="fair", policy=Policy.FAIR_SHARE),
        Pool(cluster="site", name="young", policy=Policy.LEAST_ATTAINED),
    ),
)


@pytest.fixture
def simulation() -> Simulation:
    made = Simulation(behaviour=lambda _launch: Behaviour(duration_s=60.0), cluster=nodes(1, 4))
    made.store.put_cluster(SITE)
    return made


@pytest.fixture
def plane(simulation: Simulation) -> ControlPlane:
    return simulation.server.plane


def submit(plane: ControlPlane, name: str, pool: str = "plain", **wanted: object) -> Run:
    wanted = {"slots": 4, "target": Target(cluster="site", pool=pool)} | wanted
    return plane.submit([Submission(spec=spec(name=name, **wanted), actor=ADA)])[0].run


def entries(plane: ControlPlane, pool: str = "plain") -> list[api.QueueEntry]:
    return [entry for page in plane.queue(ADA, cluster="site", pool=pool) for entry in page.runs]


def names(plane: ControlPlane, pool: str = "plain") -> list[str]:
    return [entry.name for entry in entries(plane, pool)]


def change(reference: str, **what: object) -> QueueChange:
    return QueueChange(reference=reference, **what)


def said(plane: ControlPlane, *changes: QueueChange) -> str:
    """What is wrong with these changes, all of it; nothing may have been done."""
    before = plane.control.store.last_event_id()
    with pytest.raises(InvalidInput) as refused:
        plane.reorder(ADA, changes)
    assert plane.control.store.last_event_id() == before
    return str(refused.value)


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ([change("c", ahead_of="a")], "cabd"),
        ([change("a", behind_of="c")], "bcad"),
        ([change("a", behind_of="d")], "bcda"),
        ([change("d", top=True)], "dabc"),
        ([change("a", top=True)], "abcd"),
        ([change("b", ahead_of="b")], "abcd"),
        ([change("d", ahead_of="b"), change("c", ahead_of="d"), change("a", behind_of="c")], "cadb"),
        ([change("b", priority=5)], "bacd"),
        ([change("b", priority=5), change("d", behind_of="b")], "bdac"),
        ([change("d", ahead_of="a"), change("d", priority=0)], "abcd"),
    ],
)
@pytest.mark.parametrize("apart", [True, False], ids=["one after another", "in one moment"])
def test_a_run_is_put_where_a_person_wants_it(
    simulation: Simulation, plane: ControlPlane, moves: list[QueueChange], expected: str, *, apart: bool
) -> None:
    """D13, D14: also among runs that were submitted together, where there is no time between them."""
    for name in "abcd":
        submit(plane, name)
        simulation.clock.advance(1.0 if apart else 0.0)
    plane.reorder(ADA, moves)
    assert "".join(names(plane)) == expected
    simulation.clock.advance(1.0)
    submit(plane, "e")
    assert names(plane)[-1] == "e", "who comes later comes after them all"


def test_many_moves_in_one_list_give_the_order_they_ask_for(plane: ControlPlane) -> None:
    """D15: two hundred runs of one moment are turned round, each put ahead of the one before it."""
    for number in range(200):
        submit(plane, f"n{number:03}")
    before = names(plane)
    moves = [change(name, ahead_of=ahead) for ahead, name in pairwise(before)]
    plane.reorder(ADA, moves)
    assert names(plane) == before[::-1]


def test_a_place_is_durable_and_part_of_the_history(simulation: Simulation, plane: ControlPlane) -> None:
    for name in "ab":
        submit(plane, name)
    (moved,) = plane.reorder(ADA, [change("b", ahead_of="a")])
    assert plane.events(ADA, moved.id)[-1].event is RunEvent.REORDERED
    again = simulation.start().plane
    assert names(again) == ["b", "a"]


def test_moving_beside_a_run_takes_its_priority(plane: ControlPlane) -> None:
    """D14."""
    submit(plane, "high", priority=7)
    low = submit(plane, "low")
    plane.reorder(ADA, [change("low", behind_of="high")])
    assert plane.find(ADA, low.id).place.priority == 7


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("requests", [1, 2])
def test_a_run_keeps_a_given_place_with_another_priority(
    plane: ControlPlane, order: str, requests: int
) -> None:
    """D14: the document's example gives two runs another priority, in one request or in one for each."""
    for name in "abc":
        submit(plane, name)
    plane.reorder(ADA, [change("b", ahead_of="a")])
    changes = [change(name, priority=1) for name in order]
    for part in [changes] if requests == 1 else [[each] for each in changes]:
        plane.reorder(ADA, part)
    assert names(plane) == ["b", "a", "c"]
    plane.reorder(ADA, [change("b", priority=1)])
    assert names(plane) == ["a", "b", "c"], "the same priority again gives the place up"


def test_a_list_is_checked_as_if_made_one_after_another_and_made_whole(plane: ControlPlane) -> None:
    """D15: a weight counts only once the run is in the pool that the change before brings it to."""
    submit(plane, "a")
    assert "a weight does not count" in said(plane, change("a", weight=2.0))
    plane.reorder(ADA, [change("a", pool="fair"), change("a", weight=2.0)])
    (entry,) = entries(plane, "fair")
    (page,) = plane.queue(ADA, cluster="site", pool="fair")
    assert (entry.name, entry.weight, page.policy) == ("a", 2.0, Policy.FAIR_SHARE)


def test_everything_wrong_with_a_list_is_told_at_once_and_nothing_is_done(plane: ControlPlane) -> None:
    """D15."""
    for name in "abc":
        submit(plane, name)
    text = said(
        plane,
        change("c", ahead_of="a"),
        change("b", weight=3.0),
        change("nobody", priority=1),
        change("b", pool="fare"),
    )
    assert [line.partition(":")[0] for line in text.splitlines()] == [
        "b.weight=3",
        "nobody.priority=1",
        "b.pool=fare",
    ]
    assert names(plane) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (change("plain1", weight=2.0), "pool plain orders by priority: a weight does not count there"),
        (change("fair1", priority=2), "pool fair shares fairly, by weight: a priority does not count there"),
        (change("fair1", ahead_of="fair2"), "pool fair shares fairly"),
        (change("fair1", top=True), "pool fair shares fairly"),
        (change("fair1", weight=-1.0), "a weight is more than 0, not -1"),
        (change("young1", priority=2), "pool young runs first what ran least: a priority does not count"),
        (change("young1", weight=2.0), "pool young runs first what ran least: a weight does not count"),
        (change("young1", behind_of="young2"), "pool young runs first what ran least"),
        (change("plain1", pool="othr"), "cluster site has no pool 'othr' (did you mean other?)"),
        (change("plain1", pool="small"), "pool small could never hold plain1"),
        (change("plain1", ahead_of="fair1"), "there is no place between pools"),
        (change("plain1", ahead_of="rehearsal"), "there is no place between clusters"),
        (change("plain", priority=1), "did you mean"),
        (change("plain1", ahead_of="nobody"), "there is no run 'nobody'"),
        (change("turns", priority=1), "is a cycle run"),
        (change("turns", ahead_of="plain1"), "a line of its own"),
        (change("shares", top=True), "share their pool by time"),
        (change("rehearsal", pool="plain"), "rehearses on a cluster of its own"),
        (change("ended", priority=1), "has ended: it has no place in the queue"),
        (change("plain1"), "one change at a time"),
        (change("plain1", priority=1, top=True), "one change at a time"),
    ],
    ids=str,
)
def test_what_means_nothing_is_refused_with_the_reason(
    plane: ControlPlane, wrong: QueueChange, reason: str
) -> None:
    """D13, D14."""
    for name in ("plain1", "plain2"):
        submit(plane, name)
    for name in ("fair1", "fair2"):
        submit(plane, name, "fair")
    for name in ("young1", "young2"):
        submit(plane, name, "young")
    submit(plane, "turns", mode=Mode.CYCLE)
    submit(plane, "shares", mode=Mode.INTERRUPTIBLE)
    submit(plane, "rehearsal", target=Target(), rehearsal=Rehearsal(nodes=1, slots_per_node=4))
    plane.stop(ADA, submit(plane, "ended").id)
    assert reason in said(plane, wrong)


def test_a_line_of_the_queue_says_what_a_person_needs(simulation: Simulation, plane: ControlPlane) -> None:
    """D13."""
    submit(plane, "first", project="vision")
    simulation.server.turn("schedule")
    submit(plane, "second", priority=-1)
    one, two = entries(plane)
    assert (one.number, one.name, one.state, one.slots_acquired, one.slots_needed) == (
        1,
        "first",
        RunState.STARTING,
        4,
        4,
    )
    assert (one.user, one.project, one.mode) == ("ada", "vision", Mode.BATCH)
    assert (two.number, two.priority, two.state, two.slots_acquired) == (2, -1, RunState.QUEUED, 0)


def test_a_running_run_gives_way_and_comes_back_in_its_new_pool(
    simulation: Simulation, plane: ControlPlane
) -> None:
    """D14."""
    run = submit(plane, "a")
    simulation.turn_all()
    simulation.turn_all()
    assert plane.find(ADA, run.id).state is RunState.RUNNING
    plane.reorder(ADA, [change("a", pool="other")])
    simulation.settle()
    ended = plane.find(ADA, run.id)
    pools = [attempt.allocation.pool for attempt in plane.attempts(ADA, run.id)]
    assert (ended.outcome, ended.preemptions, pools) == (Outcome.COMPLETED, 1, ["plain", "other"])


def test_a_preempted_run_keeps_its_place(simulation: Simulation, plane: ControlPlane) -> None:
    """D11: preempted by a bigger priority, it comes back ahead of those submitted after it."""
    plane.control.store.put_cluster(
        replace(SITE, pools=(Pool(cluster="site", name="plain", preemption=True, guaranteed_s=0.0),))
    )
    simulation.clock.advance(1.0)
    for name in "ab":
        submit(plane, name)
    simulation.turn_all()
    simulation.turn_all()
    submit(plane, "urgent", priority=9)
    simulation.clock.advance(1.0)
    for _ in range(4):
        simulation.turn_all()
    assert names(plane) == ["urgent", "a", "b"]
    (victim,) = [entry for entry in entries(plane) if entry.name == "a"]
    assert (victim.state, plane.find(ADA, "a").preemptions) == (RunState.QUEUED, 1)


def test_a_paused_run_keeps_the_place_it_is_given(plane: ControlPlane) -> None:
    for name in "ab":
        submit(plane, name)
    plane.pause(ADA, "b")
    plane.reorder(ADA, [change("b", ahead_of="a")])
    assert names(plane) == ["a"]
    plane.resume(ADA, "b")
    assert names(plane) == ["b", "a"]


def test_a_list_is_made_anew_when_a_run_moves_under_it(simulation: Simulation, plane: ControlPlane) -> None:
    """D15: all or none, though another server stops one of the runs between the check and the write."""
    for name in "ab":
        submit(plane, name)
    rival = ControlPlane(
        ControlState(
            store=simulation.store,
            engine=simulation.engine,
            code=plane.control.code,
            clock=simulation.clock,
            ids=simulation.ids,
        ),
    )
    rivals = iter([rival.pause])

    def interrupt() -> None:
        for pause in rivals:
            pause(ADA, "b")

    simulation.store.interrupt = interrupt
    plane.reorder(ADA, [change("a", priority=1), change("b", priority=2)])
    found = [plane.find(ADA, name) for name in "ab"]
    assert [run.place.priority for run in found] == [1, 2]
    assert found[1].state is RunState.PAUSED, "neither write was lost"
