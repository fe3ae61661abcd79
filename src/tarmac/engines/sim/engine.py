"""`SimEngine`: virtual nodes under virtual time, behind the port of every engine. Made by `simulator`.

Answers show the visible part of the world: all events whose news has arrived. A simulation is one thread. The
tests derive engines for several threads from it, with knobs for crashes and lost connections, that pass the
contract suite of the real engines.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sim.story import Behaviour, milestones, releases
from tarmac.engines.sim.world import World
from tarmac.model.abilities import Pace
from tarmac.model.cluster import FIRST_ADDRESS, Cluster, Node, NodeCache, described_nodes
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Notice, WorkerStatus
from tarmac.node.attempt.document import Launch, to_json

FIRST_PORT = 10_000
LAST_PORT = 65_535

USUAL_FIRST_ADDRESS = "10.0.0.1"
NODE_CPUS = 64.0
NODE_MEMORY_BYTES = 2**38


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


class SimulatedEngine:
    """The part of a simulated engine that is independent of placement."""

    def __init__(self, clock: VirtualClock, *, behaviour: Callable[[Launch], Behaviour]) -> None:
        self.behaviour = behaviour
        self.world = World(clock, self._on_news)
        self._clock = clock
        self._listeners: list[Callable[[str], None]] = []

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> SimRequest:
        return SimRequest(launch=launch)

    def submit(self, request: SimRequest) -> None:
        if self.world.facts(request.attempt_id) is None:
            self.world.begin(request.launch, self.behaviour(request.launch))

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        return {attempt_id: self._observe(attempt_id) for attempt_id in attempt_ids}

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        self.world.request_leave(attempt_id, request)

    def reap(self, attempt_id: str) -> None:
        self.world.reap(attempt_id)

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:  # noqa: ARG002 - nodes report none
        return ()

    def notices(self, attempt_id: str) -> Sequence[Notice]:  # noqa: ARG002 - nodes report none
        return ()

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:  # noqa: ARG002
        raise NotFound(f"attempt {attempt_id} has no file {path!r}")

    def pace(self) -> Pace:
        return Pace()

    def close(self) -> None:
        """Do nothing: the simulated cluster outlives every control plane."""

    def subscribe(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    # --- inside ----------------------------------------------------------------------------------

    def _observe(self, attempt_id: str) -> Observation:
        facts = self.world.facts(attempt_id)
        if facts is None:
            return Observation(state=ObservedState.ABSENT)
        story, horizon = self._visible(attempt_id), self._clock.now() - self.world.delay_s
        return replace(
            story,
            milestones=milestones(facts, story, horizon),
            native_state=story.state.value,
            released=releases(facts, story, horizon),
        )

    def _visible(self, attempt_id: str) -> Observation:
        """The part of the story whose news has arrived."""
        story, horizon = self.world.story(attempt_id), self._clock.now() - self.world.delay_s
        if story.ended_at is not None and story.ended_at <= horizon:
            return story

        def shown(at: float | None) -> float | None:
            return at if at is not None and at <= horizon else None

        started_at = shown(story.started_at)
        state = ObservedState.STARTING if started_at is None else ObservedState.RUNNING
        return Observation(state=state, claimed_at=shown(story.claimed_at), started_at=started_at)

    def _on_news(self, attempt_id: str) -> None:
        """Notify listeners of an attempt's event."""
        for listener in tuple(self._listeners):
            listener(attempt_id)


class SimEngine(SimulatedEngine):
    """An engine of described clusters, whose attempts behave as `behaviour` defines for their launch."""

    name = "sim"

    def __init__(self, clock: VirtualClock, *, behaviour: Callable[[Launch], Behaviour]) -> None:
        super().__init__(clock, behaviour=behaviour)
        self._described = NodeCache(self._make)
        self._last_port = FIRST_PORT - 1

    def nodes(self) -> Sequence[Node]:
        return ()

    def knows_nodes(self) -> bool:
        return True

    def cluster_nodes(self, cluster: Cluster) -> Sequence[Node]:
        return self._described.nodes(cluster)

    def prepared(self, cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:  # noqa: ARG002
        return cluster

    def free_port(self, address: str, taken: frozenset[int]) -> int:  # noqa: ARG002 - one counter serves all
        after = range(self._last_port + 1, LAST_PORT + 1)
        around = range(FIRST_PORT, self._last_port + 1)
        self._last_port = next(port for port in chain(after, around) if port not in taken)
        return self._last_port

    def forget(self, run_id: str) -> None:
        """Drop all data of a run whose attempts have ended: long simulations would fill the memory."""
        self.world.forget(run_id)

    def _make(self, cluster: Cluster) -> tuple[Node, ...]:
        return described_nodes(
            cluster,
            first_address=cluster.assigned.get(FIRST_ADDRESS, USUAL_FIRST_ADDRESS),
            cpus=NODE_CPUS,
            memory_bytes=NODE_MEMORY_BYTES,
        )
