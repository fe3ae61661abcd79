"""The history of a run tells of its events in the order of their times, whoever decided meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors import ADA
from scratch_store import ScratchStore
from sim_batch import SimBatchEngine
from sim_engine import Behaviour, SimEngine
from simulated import CountingIds, InstantCode, nodes, spec
from tarmac.control.decisions.apply_observation import apply_observation
from tarmac.control.queue.queueing import QueueChange
from tarmac.control.reconcilers.schedule import schedule_pass, submit_pass
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Outcome
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.model.spec import Target

BATCH = "batch"


class BusyClock(VirtualClock):
    """A millisecond passes with every look at it, and once something happens right after a look."""

    between: Callable[[], object] | None = None

    def now(self) -> float:
        self.advance(0.001)
        looked_at, between, self.between = super().now(), self.between, None
        if between is not None:
            between()
        return looked_at


@pytest.fixture
def clock() -> BusyClock:
    return BusyClock(1_000_000.0)


@pytest.fixture
def plane(clock: BusyClock) -> ControlPlane:
    """One whose other cluster has a queue of its own."""
    return ControlPlane(
        ControlState(
            store=ScratchStore(),
            engine=SimEngine(clock, nodes(2, 4), behaviour=lambda _launch: Behaviour()),
            engines={
                BATCH: SimBatchEngine(clock, nodes(2, 4, cluster=BATCH), behaviour=lambda _: Behaviour())
            },
            code=InstantCode(),
            clock=clock,
            ids=CountingIds(),
        ),
    )


def events_of(plane: ControlPlane, run_id: str) -> list[tuple[RunEvent, float]]:
    return [(event.event, event.at) for event in plane.control.store.events(run_id)]


@pytest.mark.parametrize(
    ("cluster", "decide", "decision"),
    [(None, schedule_pass, RunEvent.PLACED), (BATCH, submit_pass, RunEvent.SUBMITTED)],
    ids=["placed here", "given to another queue"],
)
def test_what_comes_while_a_pass_decides_is_not_later_than_its_decision(
    plane: ControlPlane,
    clock: BusyClock,
    cluster: str | None,
    decide: Callable[..., object],
    decision: RunEvent,
) -> None:
    """A run is submitted when the pass has looked at the clock, and not yet at the queue."""
    runs: list[Run] = []
    submission = Submission(spec=replace(spec(slots=1), target=Target(cluster=cluster)), actor=ADA)
    clock.between = lambda: runs.append(plane.submit([submission])[0].run)
    decide(plane.control)
    (run,) = runs
    told = events_of(plane, run.id)
    assert told[-1][0] is decision
    assert [at for _, at in told] == sorted(at for _, at in told)


def test_a_run_that_is_moved_as_it_comes_is_moved_after_it_came(
    plane: ControlPlane, clock: BusyClock
) -> None:
    first, second = (plane.submit([Submission(spec=spec(slots=8), actor=ADA)])[0].run for _ in range(2))
    clock.between = lambda: plane.pause(ADA, second.id)
    plane.reorder(ADA, [QueueChange(reference=second.id, ahead_of=first.id)])
    told = events_of(plane, second.id)
    assert {RunEvent.PAUSE_REQUESTED, RunEvent.REORDERED} <= {event for event, _ in told}
    assert [at for _, at in told] == sorted(at for _, at in told)


STARTING = Run(id="r1", spec=spec(), user="ada", state=RunState.STARTING, seq=4, created_at=1.0, attempt=1)
PLACED = Attempt(
    run_id="r1",
    number=1,
    state=AttemptState.STARTING,
    engine="sim",
    allocation=Allocation(cluster="local", placements=()),
    token="t",
    master_port=20000,
    created_at=2.0,
)


@pytest.mark.parametrize("started_at", [1.5, 2.5, 3.0], ids=["late", "right", "early"])
def test_the_clock_of_a_node_counts_for_its_attempt_and_not_for_the_order_of_the_history(
    started_at: float,
) -> None:
    fields = {"outcome": Outcome.COMPLETED, "started_at": started_at, "ended_at": started_at + 0.1}
    step = apply_observation(STARTING, PLACED, Observation(state=ObservedState.ENDED, **fields), now=2.7)
    assert step is not None
    assert step.attempt is not None
    assert [event.at for event in step.events] == [2.7, 2.7]
    assert (step.attempt.started_at, step.attempt.ended_at) == (started_at, max(started_at + 0.1, 2.0))
