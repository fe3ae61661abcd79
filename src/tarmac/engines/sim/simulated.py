"""`SimulatedEngine`: the base of simulated engines: knobs, listeners, and answers.

Inherited by `SimEngine`, and in tests by an engine with a queue of its own.

Answers show the visible part of the world: all events whose news has arrived.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock

from tarmac.engines.attempts.reports import whole_lines
from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sim.story import Behaviour, Moment, first_worker, milestones, releases
from tarmac.engines.sim.world import World
from tarmac.model.abilities import Pace, ReportPiece
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Notice, Outcome, WorkerStatus
from tarmac.model.resources import NodeUtilization
from tarmac.node.attempt.document import Launch, NodeLaunch, WorkerLaunch, to_json
from tarmac.node.attempt.protocol import NODES, REPORTS_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRequest:
    """The request to the simulated engine: the launch itself."""

    launch: Launch

    @property
    def attempt_id(self) -> str:
        return self.launch.attempt_id

    @property
    def artifact_paths(self) -> Mapping[str, str]:
        """An empty mapping: this engine stores no artifacts."""
        return {}

    def __str__(self) -> str:
        document = to_json(self.launch) | {"token": "(hidden)"}
        return json.dumps(document, indent=2, sort_keys=True)


Listener = Callable[[str], None]


class SimulatedEngine:
    """The part of a simulated engine that is independent of placement.

    Knobs, adjustable at any time: `interrupt` is called around every submit, request and reap and may raise
    any error (a crash of the control plane at that moment). Every call that has to reach the cluster calls
    `reach` first, which need not return; while `unreachable`, it raises Unavailable.
    """

    system = "cluster"
    """The name of the unreachable system."""

    def __init__(self, clock: VirtualClock, *, behaviour: Callable[[Launch], Behaviour]) -> None:
        self.behaviour = behaviour
        self.interrupt: Callable[[Moment, str], None] = lambda _moment, _attempt_id: None
        self.reach: Callable[[], None] = lambda: None
        self.unreachable = False
        self._clock = clock
        self._world = World(clock, self._on_news)
        self._listeners: list[Listener] = []
        self._lock = RLock()

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> SimRequest:
        return SimRequest(launch=launch)

    def submit(self, request: SimRequest) -> None:
        with self._interruptible(request.attempt_id, Moment.BEFORE_SUBMIT, Moment.AFTER_SUBMIT):
            self._submit(request)

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        self._reach()
        with self._lock:
            return {attempt_id: self._observe(attempt_id) for attempt_id in attempt_ids}

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        with self._interruptible(attempt_id, Moment.BEFORE_REQUEST, Moment.AFTER_REQUEST):
            self._request_leave(attempt_id, request)

    def reap(self, attempt_id: str) -> None:
        with self._interruptible(attempt_id, Moment.BEFORE_REAP, Moment.AFTER_REAP):
            self._reap(attempt_id)

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        self._reach()
        with self._lock:
            facts = self._world.facts(attempt_id)
            if facts is None or facts.launch is None:
                return ()
            story = self._visible(attempt_id)
            return [
                _worker_status(node, worker, story) for node in facts.launch.nodes for worker in node.workers
            ]

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        self._reach()
        with self._lock:
            facts = self._world.facts(attempt_id)
            claimed_at = self._visible(attempt_id).claimed_at if facts is not None else None
            if facts is None or facts.launch is None or claimed_at is None:
                return ()
            node = facts.launch.nodes[0].node
            return [Notice(at=claimed_at, node=node, text=text) for text in facts.behaviour.notices]

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

    def utilization(self, attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:  # noqa: ARG002
        return {}

    def pace(self) -> Pace:
        return Pace()

    def close(self) -> None:
        """Do nothing: the simulated cluster outlives every control plane."""

    def subscribe(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.append(listener)

    # --- the world behind it ---------------------------------------------------------------------

    @property
    def starts(self) -> Counter[str]:
        """How often each attempt actually began, by attempt id."""
        return self._world.starts

    @property
    def violations(self) -> Sequence[str]:
        """Every time two attempts of one run, or two holders of one slot, lived at once: must be empty."""
        return self._world.violations

    def live(self) -> frozenset[str]:
        """The attempts that actually exist on nodes now, visible or not."""
        return self._world.live()

    def disconnect(self) -> None:
        """Remove all listeners: their control plane is dead."""
        with self._lock:
            self._listeners.clear()

    # --- for the engines -------------------------------------------------------------------------

    def _submit(self, request: SimRequest) -> None:
        raise NotImplementedError

    def _observe(self, attempt_id: str) -> Observation:
        facts = self._world.facts(attempt_id)
        if facts is None:
            return Observation(state=ObservedState.ABSENT)
        since_s = self._clock.now() - facts.submitted_at - facts.behaviour.unknown_from_s
        if 0 <= since_s < facts.behaviour.unknown_for_s:
            return Observation(state=ObservedState.UNKNOWN, native_state="no answer")
        story, horizon = self._visible(attempt_id), self._clock.now() - self._world.delay_s
        return replace(
            story,
            milestones=milestones(facts, story, horizon),
            native_state=story.state.value,
            released=releases(facts, story, horizon),
        )

    def _visible(self, attempt_id: str) -> Observation:
        """The part of the story whose news has arrived."""
        story, horizon = self._world.story(attempt_id), self._clock.now() - self._world.delay_s
        if story.ended_at is not None and story.ended_at <= horizon:
            return story

        def shown(at: float | None) -> float | None:
            return at if at is not None and at <= horizon else None

        started_at = shown(story.started_at)
        state = ObservedState.STARTING if started_at is None else ObservedState.RUNNING
        return Observation(state=state, claimed_at=shown(story.claimed_at), started_at=started_at)

    def _request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        self._world.request_leave(attempt_id, request)

    def _reap(self, attempt_id: str) -> None:
        self._world.reap(attempt_id)

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
        facts = self._world.facts(attempt_id)
        if facts is None or facts.launch is None:
            return {}
        files = {"attempt.json": str(SimRequest(launch=facts.launch)).encode()}
        if self._visible(attempt_id).started_at is not None:
            files |= {
                f"logs/{worker.name}.log": b"" for node in facts.launch.nodes for worker in node.workers
            }
            node, worker = first_worker(facts.launch)
            files[f"logs/{worker.name}.log"] = facts.behaviour.output
            if facts.behaviour.reports:
                files[f"{NODES}/{node}/{REPORTS_FILE}"] = facts.behaviour.reports
        return files

    def _reach(self) -> None:
        self.reach()
        if self.unreachable:
            raise Unavailable(f"the simulated {self.system} cannot be reached")

    def _on_news(self, attempt_id: str) -> None:
        """Notify listeners of an attempt's event."""
        self._notify(attempt_id)

    def _notify(self, attempt_id: str) -> None:
        for listener in tuple(self._listeners):
            listener(attempt_id)


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
