"""A whole simulated tarmac: the real control plane over the in-memory store and the simulated engine.

`History` drives one seeded life of it: users submit and change their minds, nodes fail, and the control plane
crashes at durable writes and at effects; what a server does in threads is done here one pass at a time, in an
order the seed chooses. The invariants hold after every act; at the end everything accepted has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tarmac.control.draining import NodeChoice
from tarmac.control.passes.deliver import deliver_pass
from tarmac.control.passes.reap import reap_pass
from tarmac.control.passes.reconcile import reconcile_pass
from tarmac.control.passes.schedule import schedule_pass
from tarmac.control.passes.stage import stage_pass
from tarmac.control.service import ControlPlane, Submission
from tarmac.engines.sim import Behaviour, SimEngine, VirtualClock
from tarmac.model.changes import Lease, NewRun, RunStep
from tarmac.model.cluster import Node, NodeState
from tarmac.model.errors import LeaseLost, Refused
from tarmac.model.lifecycle import AttemptState, IllegalStep, RunState, replay
from tarmac.model.ports import Launch
from tarmac.model.resources import Resources
from tarmac.model.run import Outcome, Run
from tarmac.model.spec import (
    Command,
    FailureBehaviour,
    LocalDirectory,
    Process,
    Queueing,
    Role,
    RunSpec,
)
from tarmac.store.memory import MemoryStore

T = TypeVar("T")

LEASE_S = 15.0


class Crash(Exception):
    """The server is killed here."""


class CountingIds:
    """Identifiers that count: the same in every run of a test."""

    def __init__(self) -> None:
        self._made = 0

    def run_id(self, now: float) -> str:
        self._made += 1
        return f"r{self._made:05d}"

    def token(self) -> str:
        self._made += 1
        return f"t{self._made:05d}"


class InstantCode:
    """A code store whose snapshots are there at once."""

    def snapshot(self, directory: str) -> str:
        return f"digest-of-{directory.strip('/').replace('/', '-')}"


def nodes(count: int, slots: int) -> list[Node]:
    """Like nodes of the lasting cluster."""
    return [
        Node(
            name=f"node{number}",
            cluster="local",
            address=f"127.0.0.{number + 1}",
            hostname=f"node{number}",
            capacity=Resources(slots=slots, slot_type="cpu", cpus=8.0, memory_bytes=2**35),
        )
        for number in range(1, count + 1)
    ]


def spec(**wanted: object) -> RunSpec:
    """A run of one role; `slots`, `replicas` and `each` shape it, the rest are fields of the spec."""
    slots = wanted.pop("slots", None)
    replicas = wanted.pop("replicas", None if slots is not None else 1)
    each = Resources(slots=wanted.pop("each", 0), slot_type=None)
    process = Process(command=Command(argv=("train",)), resources=each if slots is None else Resources())
    role = Role(
        processes=(process,),
        slots=slots,
        replicas=replicas,
        on_failure=wanted.pop("on_failure", FailureBehaviour.STOP),
    )
    return RunSpec(**({"name": "train", "roles": (role,)} | wanted))


class InterruptibleStore(MemoryStore):
    """The in-memory store with a call before and after each durable write: a test may crash there."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupt: Callable[[], None] = lambda: None

    def create_runs(self, new: Sequence[NewRun]) -> list[Run]:
        return self._interrupted(lambda: super(InterruptibleStore, self).create_runs(new))

    def apply(
        self, steps: Sequence[RunStep], *, lease: Lease | None = None, whole: bool = False
    ) -> list[bool]:
        return self._interrupted(
            lambda: super(InterruptibleStore, self).apply(steps, lease=lease, whole=whole)
        )

    def set_drained(self, nodes: Collection[str], drained: bool) -> None:
        self._interrupted(lambda: super(InterruptibleStore, self).set_drained(nodes, drained))

    def _interrupted(self, write: Callable[[], T]) -> T:
        self.interrupt()
        result = write()
        self.interrupt()
        return result


@dataclass
class Server:
    """One life of the control plane: everything in it is lost with a crash."""

    plane: ControlPlane
    owner: str = "server"
    news: set[str] = field(default_factory=set)
    plan_at: float | None = None

    def turn(self, loop: str) -> None:
        """One pass of one loop, under its lease, as `loops` would run it."""
        world = self.plane.world
        lease = world.store.acquire_lease(loop, self.owner, ttl_s=LEASE_S, now=world.clock.now())
        if lease is None:
            return
        try:
            match loop:
                case "stage":
                    stage_pass(world, lease)
                case "schedule":
                    self.plan_at = schedule_pass(world, lease).next_at
                case "deliver":
                    deliver_pass(world)
                case "reconcile":
                    reconcile_pass(world, lease)
                case "reap":
                    reap_pass(world, lease)
        except LeaseLost:
            return


LOOPS = ("stage", "schedule", "deliver", "reconcile", "reap")


class Simulation:
    """A store and an engine that outlive servers, and the server of the moment."""

    def __init__(
        self, *, behaviour: Callable[[Launch], Behaviour], cluster: list[Node], news_delay_s: float = 0.0
    ) -> None:
        self.clock = VirtualClock(1_000_000.0)
        self.store = InterruptibleStore()
        self.ids = CountingIds()
        self.engine = SimEngine(self.clock, cluster, behaviour=behaviour, news_delay_s=news_delay_s)
        self.crashes = 0
        self.server = self.start()

    def start(self) -> Server:
        """A fresh server on what is durable."""
        self.engine.disconnect()
        self.server = Server(
            plane=ControlPlane(
                store=self.store, engine=self.engine, code=InstantCode(), clock=self.clock, ids=self.ids
            )
        )
        return self.server

    def survive(self, act: Callable[[], object]) -> bool:
        """Do something; after a crash in it, start again. True if it went through."""
        try:
            act()
        except Crash:
            self.crashes += 1
            self.start()
            return False
        return True

    def turn_all(self) -> bool:
        """One pass of every loop; True if none of them crashed."""
        went_through = [self.survive(lambda loop=loop: self.server.turn(loop)) for loop in LOOPS]
        return all(went_through)

    def upcoming(self) -> float | None:
        """When something happens by itself, or the scheduler wants to look again."""
        moments = [at for at in (self.clock.next_event_at(), self.server.plan_at) if at is not None]
        return min(moments, default=None)

    def settle(self, *, limit: int = 2000) -> None:
        """Let time pass until nothing more happens; a server that crashed is back before time goes on."""
        quiet = 0
        for _ in range(limit):
            before = self.store.last_event_id()
            if not self.turn_all():
                continue
            upcoming = self.upcoming()
            if upcoming is not None:
                self.clock.advance_to(max(upcoming, self.clock.now() + 1.0))
                continue
            quiet = quiet + 1 if self.store.last_event_id() == before else 0
            if quiet > 2 and not self.store.live_attempts():
                return
            self.clock.advance(30.0)
        raise AssertionError("it never comes to rest")


class History:
    """One seeded history; `run` plays it to its end."""

    def __init__(self, seed: int, *, acts: int = 60, crash_share: float = 0.08) -> None:
        self.random = Random(seed)
        self.acts = acts
        self.crash_share = crash_share
        self.crashing = True
        self.simulation = Simulation(
            behaviour=self._behaviour,
            cluster=nodes(self.random.randint(1, 4), self.random.choice((1, 2, 4))),
            news_delay_s=self.random.choice((0.0, 0.0, 2.0)),
        )
        self.simulation.engine.interrupt = lambda _moment, _attempt_id: self._maybe_crash()
        self.simulation.store.interrupt = self._maybe_crash
        self.accepted: dict[str, str] = {}
        self.ended: dict[str, Run] = {}
        self._behaviours: dict[str, Behaviour] = {}

    def run(self) -> None:
        """Play the acts, then let everything come to its end, checking all the way."""
        for _ in range(self.acts):
            self._act()
            self.check()
        self._finish()
        self.check()
        self._check_end()

    # --- acts

    def _act(self) -> None:
        simulation, random = self.simulation, self.random
        choice = random.random()
        if choice < 0.22:
            self._submit()
        elif choice < 0.34 and self.accepted:
            self._command(random.choice(("stop", "pause", "resume", "resume", "pause")))
        elif choice < 0.40:
            simulation.clock.advance(random.choice((0.1, 1.0, 10.0, 100.0)))
        elif choice < 0.55:
            upcoming = simulation.clock.next_event_at()
            simulation.clock.advance_to(upcoming if upcoming is not None else simulation.clock.now() + 5.0)
        elif choice < 0.57:
            simulation.survive(self._crash)
        elif choice < 0.59:
            self._disturb_a_node()
        else:
            loop = random.choice(LOOPS)
            simulation.survive(lambda: simulation.server.turn(loop))

    def _submit(self) -> None:
        key = f"key{len(self.accepted)}"
        wanted = self._spec()

        def submit() -> None:
            accepted = self.simulation.server.plane.submit(
                [Submission(spec=wanted, user="ada", idempotency_key=key)]
            )
            self.accepted[key] = accepted[0].run.id

        while key not in self.accepted:  # a client asks again, under the same key, until it has an answer
            try:
                self.simulation.survive(submit)
            except IllegalStep:
                raise
            except Refused:  # it would never fit: nothing was accepted
                return

    def _command(self, verb: str) -> None:
        run_id = self.random.choice(sorted(self.accepted.values()))
        with contextlib.suppress(Refused):
            self.simulation.survive(lambda: getattr(self.simulation.server.plane, verb)(run_id))

    def _disturb_a_node(self) -> None:
        node = self.random.choice(self.simulation.engine.nodes())
        if self.random.random() < 0.5:
            drained = self.random.random() < 0.5
            self.simulation.survive(
                lambda: self.simulation.server.plane.set_drained(NodeChoice(names=(node.name,)), drained)
            )
        else:
            state = NodeState.LOST if node.state is NodeState.UP else NodeState.UP
            self.simulation.engine.set_node(node.name, state)

    def _crash(self) -> None:
        raise Crash

    def _maybe_crash(self) -> None:
        if self.crashing and self.random.random() < self.crash_share:
            raise Crash

    def _spec(self) -> RunSpec:
        random = self.random
        wanted: dict[str, object] = {
            "retries": random.choice((0, 0, 1, 2)),
            "priority": random.choice((0, 0, 5)),
            "time_limit_s": random.choice((None, None, 50.0)),
            "queueing": random.choice((Queueing.WAIT, Queueing.WAIT, Queueing.WAIT, Queueing.FAIL_IF_BUSY)),
            "code": random.choice((None, LocalDirectory(path="/code"))),
        }
        shape = random.random()
        if shape < 0.5:
            wanted["slots"] = random.choice((1, 1, 2, 4, 8))
        elif shape < 0.8:
            wanted |= {"replicas": random.choice((1, 2, 3)), "each": random.choice((1, 2))}
        return spec(**wanted)

    def _behaviour(self, launch: Launch) -> Behaviour:
        random = self.random
        return Behaviour(
            duration_s=random.choice((0.0, 1.0, 20.0, 200.0)),
            start_s=random.choice((0.0, 0.5, 5.0)),
            checkpoint_period_s=10.0,
            exit_code=random.choice((0, 0, 0, 1)),
            leave_s=random.choice((0.0, 3.0)),
            ignores_asks=random.random() < 0.1,
            hangs_at_start=random.random() < 0.03,
            vanishes_after_s=random.choice((None,) * 12 + (5.0,)),
            unknown_for_s=random.choice((0.0, 0.0, 0.0, 30.0)),
        )

    def _finish(self) -> None:
        """No more faults: drained and lost nodes come back, paused runs are resumed, and time passes."""
        self.crashing = False
        simulation = self.simulation
        simulation.start()
        for node in simulation.engine.nodes():
            simulation.engine.set_node(node.name, NodeState.UP)
            simulation.server.plane.set_drained(NodeChoice(names=(node.name,)), False)
        for _ in range(20):
            simulation.settle()
            waiting = [run for run in simulation.store.live_runs() if run.state is RunState.PAUSED]
            if not waiting:
                return
            for run in waiting:
                simulation.server.plane.resume(run.id)

    # --- invariants

    def check(self) -> None:
        """What holds at every moment."""
        store, engine = self.simulation.store, self.simulation.engine
        assert not engine.violations, engine.violations
        assert all(count == 1 for count in engine.starts.values()), engine.starts
        live = store.live_attempts()
        assert len({attempt.run_id for attempt in live}) == len(live), "a run has two live attempts"
        held = [
            (seat.node, slot) for attempt in live for seat in attempt.allocation.seats for slot in seat.slots
        ]
        assert len(set(held)) == len(held), "a slot is in two gangs"
        for run_id in self.accepted.values():
            run = store.run(run_id)
            assert run is not None, f"{run_id} was accepted and is lost"
            self._check_run(run)

    def _check_run(self, run: Run) -> None:
        store = self.simulation.store
        before = self.ended.get(run.id)
        assert before is None or before == run, f"{run.id} changed after its end"
        if run.state is RunState.ENDED:
            self.ended[run.id] = run
        events = store.events(run.id)
        assert replay(event.event for event in events) is run.state
        assert [event.seq for event in events] == list(range(1, run.seq + 1))
        attempts = store.attempts(run.id)
        assert [attempt.number for attempt in attempts] == list(range(1, run.attempt + 1))
        for attempt in attempts:
            slots = sum(len(seat.slots) for seat in attempt.allocation.seats)
            assert slots == run.spec.slots, "a gang has all or nothing"
        outcomes = [attempt.outcome for attempt in attempts]
        assert run.failures == outcomes.count(Outcome.FAILED)
        assert run.faults == outcomes.count(Outcome.LOST)
        assert run.preemptions == outcomes.count(Outcome.PREEMPTED)
        assert all(
            (attempt.state is AttemptState.ENDED) == (attempt.ended_at is not None) for attempt in attempts
        )

    def _check_end(self) -> None:
        store, engine = self.simulation.store, self.simulation.engine
        waiting = [(run.id, run.state) for run in store.live_runs()]
        assert not waiting, f"these never ended: {waiting}"
        assert not engine.live(), "something still runs"
        assert all(report.slots_used == 0 for report in self.simulation.server.plane.nodes())
        for run_id in self.accepted.values():
            for attempt in store.attempts(run_id):
                assert attempt.started_at is None or attempt.ended_at >= attempt.started_at, (
                    "usage runs backwards"
                )
                assert attempt.started_at is None or engine.starts[attempt.id] == 1
