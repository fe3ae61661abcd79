"""A whole simulated tarmac: the real control plane over the in-memory store and the simulated engine.

A pass of a server's threads is a call here, and time passes when a test says so. See `seeded.History`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from interruptible_store import InterruptibleStore
from sim_batch import SimBatchEngine
from sim_engine import Behaviour, SimEngine
from tarmac.control.burst.renter import NOTHING_RENTED, BurstParts
from tarmac.control.reconcilers.deliver import deliver_pass
from tarmac.control.reconcilers.limits import limits_pass
from tarmac.control.reconcilers.reconcile import reap_pass, reconcile_pass
from tarmac.control.reconcilers.schedule import dependency_pass, schedule_pass, submit_pass
from tarmac.control.reconcilers.search import search_pass
from tarmac.control.reconcilers.stage import stage_pass
from tarmac.control.service import ControlPlane
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.actor import HomeIdentity, Lease
from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Cluster, Node, Pool
from tarmac.model.errors import InvalidInput, LeaseLost, Unavailable
from tarmac.model.notification import Subscription
from tarmac.model.ports import StagedCode
from tarmac.model.resources import Resources
from tarmac.model.spec import Command, FailureBehaviour, LocalDirectory, Process, Repository, Role, RunSpec
from tarmac.node.attempt.document import Launch
from tarmac.samplers import searcher_of

T = TypeVar("T")

HOME = HomeIdentity(id="home", machine="machine", hostname="here", path="/home")


class Crash(Exception):
    """The server is killed here."""


class Hangs(Exception):
    """This call never returns: the thread that made it is stuck until its engine answers again."""


class CountingIds:
    """Identifiers that count: the same in every run of a test."""

    def __init__(self, mark: str = "") -> None:
        """`mark` is in each token: those of two servers differ, and their run ids may not."""
        self._made = 0
        self._mark = mark

    def run_id(self, now: float) -> str:
        self._made += 1
        return f"r{self._made:05d}"

    def token(self) -> str:
        self._made += 1
        return f"t{self._mark}{self._made:05d}"


class InstantCode:
    """A code store whose snapshots are there at once.

    There is no room for the paths in `too_large`, and those in `breaks` meet a defect.
    """

    def __init__(self) -> None:
        self.too_large: set[str] = set()
        self.breaks: set[str] = set()

    def stage(self, code: LocalDirectory | Repository) -> StagedCode:
        assert isinstance(code, LocalDirectory)
        if code.path in self.breaks:
            raise RecursionError("maximum recursion depth exceeded")
        if code.path in self.too_large:
            raise Unavailable(f"cannot keep a copy of {code.path}", hint="free some space there")
        return StagedCode(digest=code.digest or f"digest-of-{code.path.strip('/').replace('/', '-')}")

    def check_sent(self, code: LocalDirectory) -> None:
        """Every snapshot is there."""


def nodes(
    count: int, slots: int, *, pool: str = DEFAULT_POOL, first: int = 1, cluster: str = LOCAL_CLUSTER
) -> list[Node]:
    """Like nodes of the lasting cluster, or of another one."""
    return [
        Node(
            name=f"node{number}" if cluster == LOCAL_CLUSTER else f"{cluster}{number}",
            cluster=cluster,
            address=f"127.0.0.{number + 1}",
            hostname=f"node{number}",
            capacity=Resources(slots=slots, slot_type="cpu", cpus=8.0, memory_bytes=2**35),
            pool=pool,
        )
        for number in range(first, first + count)
    ]


def spec(**wanted: object) -> RunSpec:
    """A run of one role; `slots`, `replicas`, `each` and `slot_type` shape it, the rest are the spec's."""
    slots = wanted.pop("slots", None)
    replicas = wanted.pop("replicas", None if slots is not None else 1)
    each = Resources(slots=wanted.pop("each", 0), slot_type=wanted.pop("slot_type", None))
    process = Process(command=Command(argv=("train",)), resources=each if slots is None else Resources())
    role = Role(
        processes=(process,),
        slots=slots,
        replicas=replicas,
        on_failure=wanted.pop("on_failure", FailureBehaviour.STOP),
    )
    return RunSpec(**({"name": "train", "roles": (role,)} | wanted))


@dataclass
class Server:
    """One life of the control plane: everything in it is lost with a crash.

    Of several on one store whoever has a turn serves: one that was replaced meanwhile begins a new life.
    """

    make: Callable[[], ControlPlane]
    plane: ControlPlane = field(init=False)
    lease: Lease | None = None
    news: set[str] = field(default_factory=set)
    plan_at: float | None = None
    burst_at: float | None = None
    hanging: Collection[str] = frozenset()
    stuck: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.plane = self.make()

    def turn(self, loop: str, engine: str = "") -> None:
        """One pass of one loop (of an engine), under its lease; none if its thread is stuck in a call."""
        if (loop, engine) in self.stuck and engine in self.hanging:
            return
        try:
            self._turn(loop, engine)
        except Hangs:
            assert not self.plane.control.lock._is_owned(), "others wait for a call that hangs"
            self.stuck.add((loop, engine))

    def _turn(self, loop: str, key: str) -> None:
        control = self.plane.control
        control.run_cache()  # as every pass, and any request
        engine = next((each for each in control.engines if each.key == key), None)
        if engine is None:
            return  # its cluster is not there: it has no such loops
        control.serving = self._take_lease()
        try:
            match loop:
                case "stage":
                    stage_pass(control)
                case "search":
                    search_pass(control, self.plane.searches)
                case "schedule":
                    dependency_pass(control)
                    wanted = (limits_pass(control), submit_pass(control), schedule_pass(control).next_at)
                    self.plan_at = min((at for at in wanted if at is not None), default=None)
                case "burst":
                    self.burst_at = self.plane.burst.turn(control)
                case "deliver":
                    deliver_pass(control, engine)
                case "reconcile":
                    reconcile_pass(control, engine)
                case "reap":
                    reap_pass(control, engine)
        except (LeaseLost, Unavailable):  # as the loops do: the next pass tries again
            return
        finally:
            control.serving = None  # between two passes any request is served

    def _take_lease(self) -> Lease:
        """The lease, taken again if another server had its turn meanwhile."""
        control = self.plane.control
        newest = max((record.token for record in control.store.servers()), default=0)
        if self.lease is None or self.lease.token != newest:
            if self.lease is not None:
                self.plane = self.make()
            self.lease = control.store.take_lease(LOCAL_CLUSTER, HOME, after=newest, now=control.clock.now())
        assert self.lease is not None
        return self.lease


class BatchKind:
    """A kind of engines in the settings of which a partition is needed: the systems of these clusters."""

    def __init__(self, systems: Mapping[str, SimBatchEngine]) -> None:
        self._systems = systems

    def check(self, cluster: Cluster) -> None:
        if "partition" not in cluster.settings:
            raise InvalidInput(f"{cluster.name}: a partition is missing")

    def open(self, cluster: Cluster) -> SimBatchEngine:
        return self._systems[cluster.name]


LOOPS = ("stage", "schedule", "deliver", "reconcile", "reap")
ENGINE_LOOPS = LOOPS[2:]


class Simulation:
    """A store and engines that outlive servers, and the server of the moment.

    `others` are the nodes of clusters that have an engine of their own, `batches` of those with a queue, and
    `described` of those with a queue that are there once somebody has added them. The server's own
    engine is an `engine_type`.
    """

    def __init__(
        self,
        *,
        behaviour: Callable[[Launch], Behaviour],
        cluster: list[Node],
        pools: Sequence[Pool] = (),
        news_delay_s: float = 0.0,
        others: Mapping[str, Sequence[Node]] = MappingProxyType({}),
        batches: Mapping[str, Sequence[Node]] = MappingProxyType({}),
        described: Mapping[str, Sequence[Node]] = MappingProxyType({}),
        engine_type: type[SimEngine] = SimEngine,
        notify_always: Sequence[Subscription] = (),
        burst: BurstParts | None = None,
        ids: str = "",
        clock: VirtualClock | None = None,
    ) -> None:
        self.pools = pools
        self.burst = burst
        self.notify_always = notify_always
        self.clock = clock or VirtualClock(1_000_000.0)
        self.store = InterruptibleStore()
        self.ids = CountingIds(ids)
        self.engine = engine_type(self.clock, cluster, behaviour=behaviour, news_delay_s=news_delay_s)
        self.batches = {
            name: SimBatchEngine(self.clock, there, behaviour=behaviour)
            for name, there in {**batches, **described}.items()
        }
        self.kinds: dict[str, BatchKind] = {SimBatchEngine.name: BatchKind(self.batches)} if described else {}
        self.others: dict[str, SimEngine | SimBatchEngine] = {name: self.batches[name] for name in batches}
        self.others |= {
            name: SimEngine(self.clock, there, behaviour=behaviour, news_delay_s=news_delay_s)
            for name, there in others.items()
        }
        self.hanging: set[str] = set()
        self.engines = [self.engine, *self.others.values(), *(self.batches[name] for name in described)]
        self.loops = [(loop, "") for loop in (*LOOPS, *(["burst"] if burst is not None else []))] + [
            (loop, name) for name in (*self.others, *described) for loop in ENGINE_LOOPS
        ]
        self.crashes = 0
        self.server = self.start()

    def start(self) -> Server:
        """A fresh server on what is durable."""
        for engine in self.engines:
            engine.disconnect()
        self.server = self.another()
        return self.server

    def another(self) -> Server:
        """A server on what is durable, beside the one of the moment."""
        return Server(self._plane, hanging=self.hanging)

    def _plane(self) -> ControlPlane:
        return ControlPlane(
            ControlState(
                store=self.store,
                engine=self.engine,
                engines=self.others,
                kinds=self.kinds,
                code=InstantCode(),
                clock=self.clock,
                ids=self.ids,
                pools=self.pools,
                notify_always=self.notify_always,
            ),
            searcher_of=searcher_of,
            burst=self.burst or NOTHING_RENTED,
        )

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
        went_through = [self.survive(lambda loop=loop: self.server.turn(*loop)) for loop in self.loops]
        return all(went_through)

    def upcoming(self) -> float | None:
        """When something happens by itself, or the scheduler wants to look again."""
        moments = (self.clock.next_event_at(), self.server.plan_at, self.server.burst_at)
        return min((at for at in moments if at is not None), default=None)

    def hang(self, name: str) -> None:
        """From now on the engine of this cluster answers no call."""

        def never() -> None:
            raise Hangs

        self.others[name].reach = never
        self.hanging.add(name)

    def answer(self, name: str) -> None:
        """The engine of this cluster answers again: so do the calls in which threads are stuck."""
        self.others[name].reach = lambda: None
        self.hanging.discard(name)

    def settle_until(self, done: Callable[[], bool], *, limit: int = 10_000) -> None:
        """Let time pass until something is so; no server crashes meanwhile."""
        for _ in range(limit):
            self.turn_all()
            if done():
                return
            upcoming = self.upcoming()
            now = self.clock.now()
            self.clock.advance_to(max(upcoming, now + 1.0) if upcoming is not None else now + 30.0)
        raise AssertionError("it never comes about")

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
