"""The loops as threads, over a store in memory and the simulated engine: wakeups, leases, defects."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from itertools import count
from types import MappingProxyType

from actors import ADA
from scratch_store import ScratchStore
from sim_batch import SimBatchEngine
from sim_engine import Behaviour, Moment, SimEngine
from simulated import BatchKind, CountingIds, InstantCode, nodes, spec
from tarmac.control.loops import GATHER_MOST_S, Loops
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.actor import HomeIdentity, Lease
from tarmac.model.changes import RunStep
from tarmac.model.cluster import Cluster
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.spec import Target
from tarmac.sched import EstimateBasis, Part

LIMIT_S = 120.0
ONE = HomeIdentity(id="one", machine="m1", hostname="ada", path="/home/one")
TWO = HomeIdentity(id="two", machine="m2", hostname="bob", path="/srv/two")


class SystemClock:
    """The time of the machine: leases of real threads run by it."""

    def now(self) -> float:
        return time.time()


IDS = CountingIds()


def a_plane(
    store: ScratchStore,
    engine: SimEngine,
    *,
    serving: Lease | None = None,
    engines: Mapping[str, SimEngine] = MappingProxyType({}),
    kinds: Mapping[str, BatchKind] = MappingProxyType({}),
) -> ControlPlane:
    return ControlPlane(
        ControlState(
            store=store,
            engine=engine,
            engines=engines,
            kinds=kinds,
            code=InstantCode(),
            clock=SystemClock(),
            ids=IDS,
            serving=serving,
        ),
    )


def an_engine(cluster: str = "local", *, duration_s: float = 0.0, slots: int = 1) -> SimEngine:
    clock = VirtualClock(time.time())
    there = [replace(node, name=f"{cluster}1", cluster=cluster) for node in nodes(1, slots)]
    return SimEngine(clock, there, behaviour=lambda _launch: Behaviour(duration_s=duration_s))


def take(store: ScratchStore, home: HomeIdentity, *, cluster: str = "local") -> Lease:
    newest = max((record.token for record in store.servers() if record.cluster == cluster), default=0)
    taken = store.take_lease(cluster, home, after=newest, now=time.time())
    assert taken is not None
    return taken


def wait_for(plane: ControlPlane, run_id: str, state: RunState) -> None:
    """Until the run has come to a state; woken by the plane itself."""
    changed = threading.Event()
    unsubscribe = plane.subscribe(lambda _run_ids: changed.set())
    deadline = time.monotonic() + LIMIT_S
    while plane.find(ADA, run_id).state is not state:
        assert time.monotonic() < deadline, f"it is {plane.find(ADA, run_id).state}"
        changed.wait(0.5)
        changed.clear()
    unsubscribe()


def wake_all(plane: ControlPlane) -> None:
    for wakeup in Wakeup:
        for engine in ("", *(engine.key for engine in plane.control.engines)):
            plane.control.event_bus.notify(wakeup, engine)


def submit(plane: ControlPlane, cluster: str | None = None) -> str:
    wanted = spec(slots=1, target=Target(cluster=cluster))
    return plane.submit([Submission(spec=wanted, actor=ADA)])[0].run.id


def test_a_submitted_run_goes_all_the_way_by_wakeups_alone() -> None:
    plane = a_plane(ScratchStore(), an_engine())
    loops = Loops(plane)
    loops.start()
    try:
        wait_for(plane, submit(plane), RunState.ENDED)
    finally:
        loops.stop()


def test_estimates_far_down_a_queue_are_made_by_a_loop() -> None:
    """The first answer does not wait for them."""
    plane = a_plane(ScratchStore(), an_engine(duration_s=1e6, slots=8))
    loops = Loops(plane)
    loops.start()
    try:
        plane.submit([Submission(spec=spec(slots=1, time_limit_s=60.0), actor=ADA)] * 600)
        deadline, bases = time.monotonic() + LIMIT_S, [set[EstimateBasis]()]
        while bases[-1] != {EstimateBasis.TIME_LIMITS}:
            assert time.monotonic() < deadline, bases[-1]
            threading.Event().wait(0.05)
            [page] = plane.queue(ADA, Part(limit=5, after=550))
            bases.append({each.estimate.basis for each in page.runs if each.estimate is not None})
        assert {EstimateBasis.TOO_FAR} in bases
    finally:
        loops.stop()


def test_a_server_whose_cluster_was_taken_over_ends_what_it_runs_and_goes() -> None:
    store, lost = ScratchStore(), threading.Event()
    engine, reaped = an_engine(duration_s=1e6), threading.Event()
    engine.interrupt = lambda moment, _attempt_id: reaped.set() if moment is Moment.AFTER_REAP else None
    plane = a_plane(store, engine, serving=take(store, ONE))
    loops = Loops(plane)
    loops.start(on_lost=lost.set)
    try:
        run_id = submit(plane)
        wait_for(plane, run_id, RunState.RUNNING)
        taken = take(store, TWO)
        wake_all(plane)
        assert lost.wait(LIMIT_S)
        assert reaped.is_set(), "it runs elsewhere now"
    finally:
        loops.stop()
    assert store.run(run_id).state is RunState.RUNNING, "it has said nothing of it any more"

    other = an_engine()
    after = a_plane(store, other, serving=taken)
    loops = Loops(after)
    loops.start()
    try:
        wait_for(after, run_id, RunState.ENDED)
    finally:
        loops.stop()
    first, second = store.attempts(run_id)
    assert (first.outcome, first.home, second.outcome, second.home) == ("lost", "one", "completed", "two")


def test_servers_of_two_clusters_leave_the_runs_of_the_other_alone() -> None:
    store = ScratchStore()
    engines = {"a": an_engine("a"), "b": an_engine("b")}
    planes = {
        name: a_plane(store, engine, serving=take(store, home, cluster=name))
        for (name, engine), home in zip(engines.items(), (ONE, TWO), strict=True)
    }
    waiting = submit(planes["a"])
    loops = Loops(planes["b"])
    loops.start()
    try:
        wait_for(planes["b"], submit(planes["b"]), RunState.ENDED)
        assert store.run(waiting).state is RunState.QUEUED
        said = planes["b"].why(ADA, waiting).headline
    finally:
        loops.stop()
    assert said == "queued: it is looked after by the home /home/one on ada"
    loops = Loops(planes["a"])
    loops.start()
    try:
        wait_for(planes["a"], waiting, RunState.ENDED)
    finally:
        loops.stop()
    assert [attempt.allocation.cluster for attempt in store.attempts(waiting)] == ["a"]


def test_a_defect_in_one_pass_does_not_end_the_loop() -> None:
    store, engine = ScratchStore(), an_engine()
    plane = a_plane(store, engine)
    broken = iter([True, True])

    def break_twice(_moment: object, _attempt_id: str) -> None:
        if next(broken, False):
            raise ZeroDivisionError

    engine.interrupt = break_twice
    loops = Loops(plane)
    loops.start()
    try:
        wait_for(plane, submit(plane), RunState.ENDED)
    finally:
        loops.stop()
    assert next(broken, False) is False


def test_an_engine_that_never_answers_holds_up_no_run_of_another_nor_the_end_of_the_server() -> None:
    store, far, hanging = ScratchStore(), an_engine("far"), threading.Event()
    answers = threading.Event()

    def never() -> None:
        hanging.set()
        answers.wait()

    far.reach = never
    plane = a_plane(store, an_engine(slots=10), engines={"far": far})
    loops = Loops(plane)
    loops.start()
    try:
        stuck = submit(plane, "far")
        assert hanging.wait(LIMIT_S)
        near = [submit(plane, "local") for _ in range(20)]
        for run_id in near:
            wait_for(plane, run_id, RunState.ENDED)
        plane.stop(ADA, submit(plane, "far"))
        assert store.run(stuck).state is RunState.STARTING
        assert [attempt.engine for attempt in store.attempts(stuck)] == ["sim"]
        answers.set()
        wait_for(plane, stuck, RunState.ENDED)
        answers.clear()
        hanging.clear()
        submit(plane, "far")
        assert hanging.wait(LIMIT_S)
        began_at = time.monotonic()
    finally:
        loops.stop()
        answers.set()
    assert time.monotonic() - began_at < LIMIT_S, "nobody waits for it"


def test_an_engine_that_comes_while_the_loops_run_has_its_own_until_it_goes() -> None:
    store, batch = ScratchStore(), SimBatchEngine(VirtualClock(time.time()), nodes(1, 1, cluster="far"))
    plane = a_plane(store, an_engine(), kinds={"sim-batch": BatchKind({"far": batch})})
    loops = Loops(plane)
    loops.start()
    try:
        plane.clusters.add(ADA, Cluster(name="far", engine="sim-batch", settings={"partition": "gpu"}))
        batch.closed = True
        run_id = submit(plane, "far")
        wait_for(plane, run_id, RunState.SUBMITTED)
        plane.stop(ADA, run_id)
        wait_for(plane, run_id, RunState.ENDED)
        plane.clusters.remove(ADA, "far")
        wait_for(plane, submit(plane, "local"), RunState.ENDED)
    finally:
        loops.stop()


class _RecordingStore(ScratchStore):
    """Counts the transactions in which runs end."""

    def __init__(self) -> None:
        super().__init__()
        self.with_ends = 0

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        self.with_ends += any(step.after.state is RunState.ENDED for step in steps)
        return super().apply(steps, lease=lease, whole=whole)


def test_ends_are_recorded_together_while_other_runs_wait() -> None:
    store, clock = _RecordingStore(), VirtualClock(time.time())
    durations = count(1)
    engine = SimEngine(
        clock, nodes(1, 40), behaviour=lambda _launch: Behaviour(duration_s=float(next(durations)))
    )
    plane = a_plane(store, engine)
    loops = Loops(plane)
    loops.start()
    try:
        first = plane.submit([Submission(spec=spec(slots=1), actor=ADA)] * 120)[:40]
        for each in first:
            wait_for(plane, each.run.id, RunState.STARTING)
        began_at = time.monotonic()
        for _ in first:
            clock.advance(1.0)
            threading.Event().wait(0.002)
        wait_for(plane, first[0].run.id, RunState.ENDED)
        took_s = time.monotonic() - began_at
    finally:
        loops.stop()
    assert 0 < store.with_ends <= took_s / GATHER_MOST_S + 2
