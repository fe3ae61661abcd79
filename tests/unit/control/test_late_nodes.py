"""A cluster whose engine learns its nodes late, or does not know one of them for a while after a restart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors import ADA
from scratch_store import ScratchStore
from sim_engine import Behaviour, SimEngine
from simulated import CountingIds, InstantCode, nodes, spec
from tarmac.control.reconcilers.deliver import deliver_pass
from tarmac.control.reconcilers.schedule import schedule_pass
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.cluster import Node
from tarmac.model.codec import replace
from tarmac.model.errors import NeverFits, Unavailable
from tarmac.model.lifecycle import RunState
from tarmac.model.ports import ObservedState
from tarmac.model.spec import Target

FAR = "far"


class LateEngine(SimEngine):
    """It offers the nodes that it has learned of."""

    learned: tuple[str, ...] = ()
    knows = False

    def nodes(self) -> Sequence[Node]:
        return [node for node in super().nodes() if node.name in self.learned]

    def knows_nodes(self) -> bool:
        return self.knows


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_000_000.0)


@pytest.fixture
def far(clock: VirtualClock) -> LateEngine:
    there = [replace(node, name=f"far-{node.name}") for node in nodes(2, 4, cluster=FAR)]
    return LateEngine(clock, there, behaviour=lambda _launch: Behaviour(duration_s=100.0))


@pytest.fixture
def plane(clock: VirtualClock, far: LateEngine) -> ControlPlane:
    return ControlPlane(
        ControlState(
            store=ScratchStore(),
            engine=SimEngine(clock, nodes(1, 1), behaviour=lambda _launch: Behaviour()),
            engines={FAR: far},
            code=InstantCode(),
            clock=clock,
            ids=CountingIds(),
        ),
    )


def submit(plane: ControlPlane, *, slots: int, cluster: str = FAR) -> str:
    wanted = replace(spec(slots=slots), target=Target(cluster=cluster))
    return plane.submit([Submission(spec=wanted, actor=ADA)])[0].run.id


def everyone(far: LateEngine) -> tuple[str, ...]:
    return tuple(node.name for node in SimEngine.nodes(far))


def test_before_its_nodes_are_known_a_run_waits_for_them_and_is_not_refused(
    plane: ControlPlane, far: LateEngine
) -> None:
    run_id = submit(plane, slots=8)
    schedule_pass(plane.control)
    assert plane.find(ADA, run_id).state is RunState.QUEUED
    far.learned, far.knows = everyone(far), True
    schedule_pass(plane.control)
    assert plane.find(ADA, run_id).state is RunState.STARTING
    with pytest.raises(NeverFits):
        submit(plane, slots=9)


def test_why_of_a_run_whose_nodes_are_not_known_yet_is_no_refusal(
    plane: ControlPlane, far: LateEngine
) -> None:
    """As admission, which takes it: it may start as soon as they are known."""
    run_id = submit(plane, slots=8)
    schedule_pass(plane.control)
    waits = plane.why(ADA, run_id)
    assert waits.headline == "queued: it waits until the nodes of cluster far are known"
    assert waits.unblocked_by == "tarmac clusters check far says what is missing."
    far.learned, far.knows = everyone(far)[:1], True
    assert plane.why(ADA, run_id).headline == "it can never start here"


def test_a_dry_run_does_not_call_a_run_impossible_whose_nodes_are_not_known_yet(
    plane: ControlPlane, far: LateEngine
) -> None:
    wanted = replace(spec(slots=8), target=Target(cluster=FAR))
    with pytest.raises(Unavailable, match="the nodes of cluster far are not known yet"):
        plane.dry_run(Submission(spec=wanted, actor=ADA))
    far.learned, far.knows = everyone(far), True
    assert plane.dry_run(Submission(spec=wanted, actor=ADA)).launch is not None


def test_what_is_for_another_cluster_is_refused_as_ever(plane: ControlPlane) -> None:
    with pytest.raises(NeverFits):
        submit(plane, slots=2, cluster="local")


def test_an_attempt_on_a_node_that_is_not_known_now_holds_up_no_other(
    plane: ControlPlane, far: LateEngine, clock: VirtualClock
) -> None:
    far.learned, far.knows = everyone(far), True
    run_ids = [submit(plane, slots=4) for _ in range(2)]
    schedule_pass(plane.control)
    attempts = [plane.control.store.attempts(run_id)[0] for run_id in run_ids]
    far.learned = tuple(set(far.learned) - set(attempts[0].allocation.nodes))
    engine = plane.control.engines.at(FAR)

    def deliver() -> list[ObservedState]:
        clock.advance(10.0)
        deliver_pass(plane.control, engine)
        found = far.observe([attempt.id for attempt in attempts])
        return [found[attempt.id].state for attempt in attempts]

    assert deliver()[0] is ObservedState.ABSENT
    assert deliver()[1] is not ObservedState.ABSENT
    far.learned = everyone(far)
    assert ObservedState.ABSENT not in deliver()
