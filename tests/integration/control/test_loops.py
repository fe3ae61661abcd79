"""The loops as threads, over the in-memory store and the simulated engine: bells, leases, defects."""

from __future__ import annotations

import threading
import time

from simulated import CountingIds, InstantCode, InterruptibleStore, nodes, spec
from tarmac.control.loops import Loops
from tarmac.control.service import ControlPlane, Submission
from tarmac.engines.sim import Behaviour, SimEngine, VirtualClock
from tarmac.model.lifecycle import RunState

LIMIT_S = 30.0


class SystemClock:
    """The time of the machine: leases of real threads run by it."""

    def now(self) -> float:
        return time.time()


def a_plane(store: InterruptibleStore, engine: SimEngine) -> ControlPlane:
    return ControlPlane(
        store=store, engine=engine, code=InstantCode(), clock=SystemClock(), ids=CountingIds()
    )


def an_engine() -> SimEngine:
    clock = VirtualClock(time.time())
    return SimEngine(clock, nodes(1, 1), behaviour=lambda _launch: Behaviour(duration_s=0.0))


def wait_for(plane: ControlPlane, run_id: str, state: RunState) -> None:
    """Until the run has come to a state; woken by the plane itself."""
    changed = threading.Event()
    unsubscribe = plane.subscribe(lambda _run_ids: changed.set())
    deadline = time.monotonic() + LIMIT_S
    while plane.find(run_id).state is not state:
        assert time.monotonic() < deadline, f"it is {plane.find(run_id).state}"
        changed.wait(0.5)
        changed.clear()
    unsubscribe()


def submit(plane: ControlPlane) -> str:
    return plane.submit([Submission(spec=spec(slots=1), user="ada")])[0].run.id


def test_a_submitted_run_goes_all_the_way_by_bells_alone() -> None:
    plane = a_plane(InterruptibleStore(), an_engine())
    loops = Loops(plane, owner="one")
    loops.start()
    try:
        wait_for(plane, submit(plane), RunState.ENDED)
    finally:
        loops.stop()


def test_a_second_server_waits_for_the_leases_and_takes_them_when_they_are_given_back() -> None:
    store, engine = InterruptibleStore(), an_engine()
    first, second = a_plane(store, engine), a_plane(store, engine)
    holding, waiting = Loops(first, owner="one"), Loops(second, owner="two")
    holding.start()
    try:
        wait_for(first, submit(first), RunState.ENDED)
        waiting.start()
        assert store.acquire_lease("schedule", "three", ttl_s=1.0, now=time.time()) is None
    finally:
        holding.stop()
    try:
        run = submit(first)  # nobody rings for the second: it finds the run in the feed
        wait_for(second, run, RunState.ENDED)
    finally:
        waiting.stop()


def test_a_defect_in_one_pass_does_not_end_the_loop() -> None:
    store, engine = InterruptibleStore(), an_engine()
    plane = a_plane(store, engine)
    broken = iter([True, True])

    def break_twice(_moment: object, _attempt_id: str) -> None:
        if next(broken, False):
            raise ZeroDivisionError

    engine.interrupt = break_twice
    loops = Loops(plane, owner="one")
    loops.start()
    try:
        wait_for(plane, submit(plane), RunState.ENDED)
    finally:
        loops.stop()
    assert next(broken, False) is False


def test_stopping_gives_the_leases_back() -> None:
    store = InterruptibleStore()
    loops = Loops(a_plane(store, an_engine()), owner="one")
    loops.start()
    loops.stop()
    for name in ("stage", "schedule", "deliver", "reconcile", "reap"):
        assert store.acquire_lease(name, "two", ttl_s=1.0, now=time.time()) is not None
