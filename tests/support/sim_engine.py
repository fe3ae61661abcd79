"""The simulated engine with all that tests do to it: crashes, lost connections, nodes that change, files.

It outlives the control planes of a test like a cluster: after a "crash", create a new control plane on the
same engine and call `disconnect` for the dead one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import RLock

from tarmac.engines.hosts.engine import whole_lines
from tarmac.engines.sim import engine, story
from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sim.engine import SimRequest, SimulatedEngine
from tarmac.engines.sim.story import first_worker
from tarmac.engines.sim.world import World
from tarmac.model.abilities import ReportPiece
from tarmac.model.cluster import Cluster, Node, NodeState
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Notice, Outcome, WorkerStatus
from tarmac.model.resources import NodeUtilization
from tarmac.node.attempt.document import Launch, NodeLaunch, WorkerLaunch
from tarmac.node.attempt.protocol import NODES, REPORTS_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour(story.Behaviour):
    """The behaviour of one attempt, with what its nodes report.

    Its first node sends `notices` at once, and its first worker reports `reports` (whole lines of the SDK)
    once it has started. From `unknown_from_s` after submission and for `unknown_for_s` the engine reports its
    state as unknown.
    """

    reports: bytes = b""
    notices: tuple[str, ...] = ()
    unknown_from_s: float = 0.0
    unknown_for_s: float = 0.0


class LossyWorld(World):
    """A world whose nodes can be lost, and that says when an attempt begins and ceases to be unknown."""

    def lose_node(self, name: str) -> None:
        """End every attempt with a live part on this node."""
        for attempt_id in sorted(self.live()):
            facts, ended = self._facts[attempt_id], self._released(attempt_id)
            nodes = facts.launch.nodes if facts.launch is not None else ()
            parts = [worker for node in nodes if node.node == name for worker in node.workers]
            if any((worker.role, worker.replica) not in ended for worker in parts):
                facts.lost_at, facts.lost_node = self._clock.now(), name
                self._retell(attempt_id)

    def _retell(self, attempt_id: str) -> None:
        super()._retell(attempt_id)
        facts = self._facts[attempt_id]
        if isinstance(facts.behaviour, Behaviour) and facts.behaviour.unknown_for_s:
            begin = facts.submitted_at + facts.behaviour.unknown_from_s
            self._appointments[attempt_id] += [
                self._clock.call_at(at, lambda: self._news(attempt_id))
                for at in (begin, begin + facts.behaviour.unknown_for_s)
                if at >= self._clock.now()
            ]


class Moment(StrEnum):
    """Points at which a test may interrupt a call: before or after its effect in the world."""

    BEFORE_SUBMIT = "before_submit"
    AFTER_SUBMIT = "after_submit"
    BEFORE_REQUEST = "before_request"
    AFTER_REQUEST = "after_request"
    BEFORE_REAP = "before_reap"
    AFTER_REAP = "after_reap"


class KnobbedEngine(SimulatedEngine):
    """A simulated engine for several threads, with knobs.

    Knobs, adjustable at any time: `interrupt` is called around every submit, request and reap and may raise
    any error (a crash of the control plane at that moment). Every call that has to reach the cluster calls
    `reach` first, which need not return; while `unreachable`, it raises Unavailable.
    """

    system = "cluster"
    """The name of the unreachable system."""

    def __init__(self, clock: VirtualClock, *, behaviour: Callable[[Launch], story.Behaviour]) -> None:
        super().__init__(clock, behaviour=behaviour)
        self.world: LossyWorld = LossyWorld(clock, self._on_news)
        self.interrupt: Callable[[Moment, str], None] = lambda _moment, _attempt_id: None
        self.reach: Callable[[], None] = lambda: None
        self.unreachable = False
        self._lock = RLock()

    # --- the port --------------------------------------------------------------------------------

    def submit(self, request: SimRequest) -> None:
        with self._interruptible(request.attempt_id, Moment.BEFORE_SUBMIT, Moment.AFTER_SUBMIT):
            self._submit(request)

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        self._reach()
        with self._lock:
            return super().observe(attempt_ids)

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        with self._interruptible(attempt_id, Moment.BEFORE_REQUEST, Moment.AFTER_REQUEST):
            self._request_leave(attempt_id, request)

    def reap(self, attempt_id: str) -> None:
        with self._interruptible(attempt_id, Moment.BEFORE_REAP, Moment.AFTER_REAP):
            self._reap(attempt_id)

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        self._reach()
        with self._lock:
            facts = self.world.facts(attempt_id)
            if facts is None or facts.launch is None:
                return ()
            seen = self._visible(attempt_id)
            return [
                _worker_status(node, worker, seen) for node in facts.launch.nodes for worker in node.workers
            ]

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        self._reach()
        with self._lock:
            facts = self.world.facts(attempt_id)
            claimed_at = self._visible(attempt_id).claimed_at if facts is not None else None
            if facts is None or facts.launch is None or claimed_at is None:
                return ()
            node, behaviour = facts.launch.nodes[0].node, facts.behaviour
            texts = behaviour.notices if isinstance(behaviour, Behaviour) else ()
            return [Notice(at=claimed_at, node=node, text=text) for text in texts]

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:
        self._reach()
        with self._lock:
            content = self._files(attempt_id).get(path)
            if content is None:
                raise NotFound(f"attempt {attempt_id} has no file {path!r}")
            return content[offset : offset + limit]

    def reports(
        self, positions: Mapping[str, Mapping[str, int]], *, limit_bytes: int
    ) -> Mapping[str, Sequence[ReportPiece]]:
        with self._lock:
            found = {
                attempt_id: list(_pieces(self._files(attempt_id), known, limit_bytes))
                for attempt_id, known in positions.items()
            }
        return {attempt_id: pieces for attempt_id, pieces in found.items() if pieces}

    def utilization(self, attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
        return {}

    def subscribe(self, listener: Callable[[str], None]) -> None:
        with self._lock:
            super().subscribe(listener)

    # --- the world behind it ---------------------------------------------------------------------

    @property
    def starts(self) -> Counter[str]:
        """How often each attempt actually began, by attempt id."""
        return self.world.starts

    @property
    def violations(self) -> Sequence[str]:
        """Every time two attempts of one run, or two holders of one slot, lived at once: must be empty."""
        return self.world.violations

    def live(self) -> frozenset[str]:
        """The attempts that actually exist on nodes now, visible or not."""
        return self.world.live()

    def disconnect(self) -> None:
        """Remove all listeners: their control plane is dead."""
        with self._lock:
            self._listeners.clear()

    # --- for the engines -------------------------------------------------------------------------

    def _observe(self, attempt_id: str) -> Observation:
        facts = self.world.facts(attempt_id)
        if facts is not None and isinstance(facts.behaviour, Behaviour):
            since_s = self._clock.now() - facts.submitted_at - facts.behaviour.unknown_from_s
            if 0 <= since_s < facts.behaviour.unknown_for_s:
                return Observation(state=ObservedState.UNKNOWN, native_state="no answer")
        return super()._observe(attempt_id)

    def _submit(self, request: SimRequest) -> None:
        super().submit(request)

    def _request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        super().request_leave(attempt_id, request)

    def _reap(self, attempt_id: str) -> None:
        super().reap(attempt_id)

    @contextmanager
    def _interruptible(self, attempt_id: str, before: Moment, after: Moment) -> Iterator[None]:
        """Reach the cluster for a change of an attempt; a crash may come before and after it."""
        self._reach()
        with self._lock:
            self.interrupt(before, attempt_id)
            yield
            self.interrupt(after, attempt_id)

    def _files(self, attempt_id: str) -> Mapping[str, bytes]:
        """The files of an attempt by path: its request, and the logs of workers that have started."""
        facts = self.world.facts(attempt_id)
        if facts is None or facts.launch is None:
            return {}
        files = {"attempt.json": str(SimRequest(launch=facts.launch)).encode()}
        if self._visible(attempt_id).started_at is not None:
            files |= {
                f"logs/{worker.name}.log": b"" for node in facts.launch.nodes for worker in node.workers
            }
            node, worker = first_worker(facts.launch)
            files[f"logs/{worker.name}.log"] = facts.behaviour.output
            if isinstance(facts.behaviour, Behaviour) and facts.behaviour.reports:
                files[f"{NODES}/{node}/{REPORTS_FILE}"] = facts.behaviour.reports
        return files

    def _reach(self) -> None:
        self.reach()
        if self.unreachable:
            raise Unavailable(f"the simulated {self.system} cannot be reached")


class SimEngine(KnobbedEngine, engine.SimEngine):
    """An engine with nodes of its own, which can change; events become visible `news_delay_s` later."""

    def __init__(
        self,
        clock: VirtualClock,
        nodes: Sequence[Node],
        *,
        behaviour: Callable[[Launch], story.Behaviour] = lambda _launch: Behaviour(),
        news_delay_s: float = 0.0,
    ) -> None:
        super().__init__(clock, behaviour=behaviour)
        self._nodes = {node.name: node for node in nodes}
        self._offered: tuple[Node, ...] | None = None
        self._states: dict[str, NodeState] = {}
        self.world.delay_s = news_delay_s

    def nodes(self) -> Sequence[Node]:
        with self._lock:
            if self._offered is None:
                self._offered = tuple(self._nodes.values())
            return self._offered

    def cluster_nodes(self, cluster: Cluster) -> Sequence[Node]:
        with self._lock:
            return super().cluster_nodes(cluster)

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        with self._lock:
            return super().free_port(address, taken)

    def progress_s(self, run_id: str) -> float:
        """The amount of a run's work in its checkpoints."""
        return self.world.progress_s(run_id)

    def set_node(self, name: str, state: NodeState) -> None:
        """Change a node's state; attempts on a node that goes down or is lost are lost with it."""
        with self._lock:
            if name in self._nodes:
                self._nodes[name] = replace(self._nodes[name], state=state)
                self._offered = None
            else:
                self._states[name] = state
                self._described.forget()
            if state in (NodeState.DOWN, NodeState.LOST):
                self.world.lose_node(name)

    def forget(self, run_id: str) -> None:
        with self._lock:
            super().forget(run_id)

    def _make(self, cluster: Cluster) -> tuple[Node, ...]:
        nodes = super()._make(cluster)
        if not self._states:
            return nodes
        return tuple(replace(node, state=self._states.get(node.name, node.state)) for node in nodes)


def _pieces(files: Mapping[str, bytes], known: Mapping[str, int], limit_bytes: int) -> Iterator[ReportPiece]:
    for path, content in files.items():
        first, _, rest = path.partition("/")
        node, _, name = rest.partition("/")
        if first == NODES and name == REPORTS_FILE:
            begin = known.get(node, 0)
            piece = whole_lines(content[begin : begin + limit_bytes], begin)
            if piece is not None:
                yield ReportPiece(node=node, begin=begin, end=piece[1], content=piece[0])


def _worker_status(node: NodeLaunch, worker: WorkerLaunch, story: Observation) -> WorkerStatus:
    """A worker in the story: the failing one with its exit, the others ended because of it."""
    ended = story.started_at is not None and story.ended_at is not None
    cause = story.cause
    blamed = cause is not None and (cause.role, cause.replica, cause.worker) == (
        worker.role,
        worker.replica,
        worker.worker,
    )
    exit_code, signal = None, None
    if ended and blamed and cause is not None:
        exit_code, signal = cause.exit_code, cause.signal
    elif ended and story.outcome is Outcome.COMPLETED:
        exit_code = 0
    elif ended:
        signal = "SIGTERM"
    return WorkerStatus(
        role=worker.role,
        replica=worker.replica,
        index=worker.worker,
        node=node.node,
        log=f"logs/{worker.name}.log",
        started_at=story.started_at,
        ended_at=story.ended_at if ended else None,
        exit_code=exit_code,
        signal=signal,
    )
