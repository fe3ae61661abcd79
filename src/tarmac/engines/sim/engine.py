"""`SimEngine`: virtual nodes under virtual time, with knobs, behind the port of every engine.

Simulation tests run the real control plane against it; it passes the same contract suite as the real engines.
It outlives the control planes of a test like a cluster: after a "crash", create a new control plane on the
same engine and call `disconnect` for the dead one.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sim.simulated import SimRequest, SimulatedEngine
from tarmac.engines.sim.story import Behaviour
from tarmac.model.cluster import FIRST_ADDRESS, Cluster, Node, NodeCache, NodeState, described_nodes
from tarmac.model.codec import replace
from tarmac.node.attempt.document import Launch

FIRST_PORT = 10_000
LAST_PORT = 65_535

USUAL_FIRST_ADDRESS = "10.0.0.1"
NODE_CPUS = 64.0
NODE_MEMORY_BYTES = 2**38
"""Default memory of a simulated node."""


class SimEngine(SimulatedEngine):
    """An engine whose attempts behave as `behaviour` defines for their launch.

    Knobs as in `SimulatedEngine`; events become visible `news_delay_s` later.
    """

    name = "sim"

    def __init__(
        self,
        clock: VirtualClock,
        nodes: Sequence[Node],
        *,
        behaviour: Callable[[Launch], Behaviour] = lambda _launch: Behaviour(),
        news_delay_s: float = 0.0,
    ) -> None:
        super().__init__(clock, behaviour=behaviour)
        self._nodes = {node.name: node for node in nodes}
        self._offered: tuple[Node, ...] | None = None
        self._described = NodeCache(self._make)
        self._states: dict[str, NodeState] = {}
        self._world.delay_s = news_delay_s
        self._last_port = FIRST_PORT - 1

    # --- optional abilities ----------------------------------------------------------------------

    def nodes(self) -> Sequence[Node]:
        with self._lock:
            if self._offered is None:
                self._offered = tuple(self._nodes.values())
            return self._offered

    def knows_nodes(self) -> bool:
        return True

    def cluster_nodes(self, cluster: Cluster) -> Sequence[Node]:
        with self._lock:
            return self._described.nodes(cluster)

    def prepared(self, cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:  # noqa: ARG002
        return cluster

    def free_port(self, address: str, taken: frozenset[int]) -> int:  # noqa: ARG002 - one counter serves all
        with self._lock:
            after = range(self._last_port + 1, LAST_PORT + 1)
            around = range(FIRST_PORT, self._last_port + 1)
            self._last_port = next(port for port in chain(after, around) if port not in taken)
            return self._last_port

    # --- the world behind it ---------------------------------------------------------------------

    def progress_s(self, run_id: str) -> float:
        """The amount of a run's work in its checkpoints."""
        return self._world.progress_s(run_id)

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
                self._world.lose_node(name)

    def forget(self, run_id: str) -> None:
        """Drop all data of a run whose attempts have ended: long simulations would fill the memory."""
        with self._lock:
            self._world.forget(run_id)

    def _submit(self, request: SimRequest) -> None:
        if self._world.facts(request.attempt_id) is None:
            self._world.begin(request.launch, self.behaviour(request.launch))

    def _make(self, cluster: Cluster) -> tuple[Node, ...]:
        nodes = described_nodes(
            cluster,
            first_address=cluster.assigned.get(FIRST_ADDRESS, USUAL_FIRST_ADDRESS),
            cpus=NODE_CPUS,
            memory_bytes=NODE_MEMORY_BYTES,
        )
        if not self._states:
            return nodes
        return tuple(replace(node, state=self._states.get(node.name, node.state)) for node in nodes)
