"""All nodes and pools: of the engines' own clusters, of described clusters, of live rehearsals.

Owned by `ControlState`, which calls it under its lock. While nothing changes the answers are the same
objects, so that a pass over ten thousand nodes costs no more than one over a few.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tarmac.control.state.engines import AttachedEngine, Engines
from tarmac.control.state.event_bus import Listener
from tarmac.model.cluster import LOCAL_CLUSTER, REHEARSAL_PREFIX, Cluster, Drain, Node, NodeState, Pool
from tarmac.model.codec import replace
from tarmac.model.reservations import Reserved, ReservedNodes, by_node
from tarmac.model.run import Run

_SHOW_NODES = ("/nodes", "/reservations", "/clusters", "/queue")

Offer = tuple[tuple[Pool, ...], tuple[Node, ...]]


class NodeInventory:
    """Pools with their rules, and nodes, drained and reserved ones marked.

    `rules` are of pools of the cluster `own`. `tell` gets the paths whose answers show another offer.
    """

    def __init__(
        self, engines: Engines, rules: Iterable[Pool], own: str = LOCAL_CLUSTER, *, tell: Listener
    ) -> None:
        self._tell = tell
        self._own_cluster = own
        self._engines = engines
        self._local_rules = {pool.name: pool for pool in rules}
        self.clusters: tuple[Cluster, ...] = ()
        self.drained: Mapping[str, Drain] = {}
        self.reserved: Reserved = {}
        self._made_of: tuple[object, ...] = ()
        self._offer: Offer = ((), ())
        self._own: tuple[Sequence[Node], ...] = ()
        self._own_names: set[str] = set()
        self._lasting_of: tuple[Sequence[Node], ...] = ()
        self._lasting: tuple[Node, ...] = ()
        self._addresses: dict[str, frozenset[str | None]] = {}
        self._present_of: dict[int, tuple[Sequence[Node], Sequence[Node]]] = {}

    def learn(
        self, clusters: Iterable[Cluster], drained: Mapping[str, Drain], reservations: list[ReservedNodes]
    ) -> None:
        """Replace the described clusters, the drained nodes and the reservations, ordered by their begin."""
        known = tuple(clusters)
        if known != self.clusters:
            self.clusters = known
            self._addresses = {
                cluster.name: frozenset(machine.address for machine in cluster.machines)
                for cluster in known
                if cluster.machines
            }
            self._present_of = {}
        if drained != self.drained:
            self.drained = drained
        if (reserved := by_node(reservations)) != self.reserved:
            self.reserved = reserved

    def described(self, name: str) -> Cluster | None:
        """The described cluster of this name."""
        return next((cluster for cluster in self.clusters if cluster.name == name), None)

    def lasting_nodes(self) -> tuple[Node, ...]:
        """The nodes of every lasting cluster; drained nodes come unmarked from their engine."""
        parts = self._parts(self.clusters)
        if parts != self._lasting_of:  # quick while engines answer with the same objects
            self._lasting_of = parts
            self._lasting = tuple(node for part in parts for node in part)
        return self._lasting

    def nodes_of(self, cluster: Cluster) -> Sequence[Node]:
        """The nodes of one described cluster, none marked as drained."""
        describer = self._engines.own.describer
        return () if describer is None else describer.cluster_nodes(cluster)

    def offer(self, rehearsals: Collection[Run]) -> Offer:
        """All present pools and nodes, with those of the rehearsals of these runs."""
        clusters = self.clusters
        if rehearsals:
            made = {cluster.name: cluster for cluster in filter(None, map(rehearsal_of, rehearsals))}
            clusters = (*clusters, *made.values())
        parts = self._parts(clusters)
        made_of = (*parts, self.drained, self.reserved, self.clusters)
        if made_of != self._made_of:
            self._made_of = made_of
            self._offer = self._make(parts, clusters)
            self._tell(_SHOW_NODES)
        return self._offer

    def _parts(self, clusters: Iterable[Cluster]) -> tuple[Sequence[Node], ...]:
        """The nodes of the engines' own clusters and of each of these; a described own cluster adds only
        rules.
        """
        parts = tuple([self._present(at, each.nodes()) for at, each in enumerate(self._engines.inventories)])
        if parts != self._own:
            self._own, self._own_names = parts, {node.cluster for part in parts for node in part}
        clusters = [
            cluster
            for cluster in clusters
            if cluster.name not in self._own_names and self._engines.serves(cluster)
        ]
        return (*parts, *map(self.nodes_of, clusters))

    def _present(self, at: int, nodes: Sequence[Node]) -> Sequence[Node]:
        """The nodes of an engine, less those that are down because their machine was removed."""
        if not self._addresses:
            return nodes
        known, present = self._present_of.get(at, (None, ()))
        if known is not nodes:
            present = tuple(node for node in nodes if node.state is NodeState.UP or self._belongs(node))
            self._present_of[at] = nodes, present
        return present

    def _belongs(self, node: Node) -> bool:
        addresses = self._addresses.get(node.cluster)
        return addresses is None or node.address in addresses

    def _make(self, parts: Iterable[Sequence[Node]], clusters: Iterable[Cluster]) -> Offer:
        nodes = tuple(
            _drained(node, drain)
            if node.state is NodeState.UP and (drain := self.drained.get(node.name)) is not None
            else node
            for part in parts
            for node in part
        )
        if reserved := self.reserved:
            nodes = tuple(
                replace(node, reservations=reserved[node.name]) if node.name in reserved else node
                for node in nodes
            )
        rules = {pool.key: pool for cluster in clusters for pool in cluster.pools}
        keys = dict.fromkeys((node.cluster, node.pool) for node in nodes)
        return tuple(rules.get(key) or self._usual(*key) for key in keys), nodes

    def _usual(self, cluster: str, pool: str) -> Pool:
        """The rules of a pool without a description; a rehearsal uses those of the server's own cluster."""
        settings = self._local_rules.get(pool)
        if settings is not None and (cluster == self._own_cluster or cluster.startswith(REHEARSAL_PREFIX)):
            return replace(settings, cluster=cluster)
        return Pool(name=pool, cluster=cluster)


def _drained(node: Node, drain: Drain) -> Node:
    if drain.slots:
        return replace(node, drain=drain)
    return replace(node, state=NodeState.DRAINED, drain=drain, reason=drain.reason)


class NodeTable:
    """Nodes by name, and the names of those at each address."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self.by_name = {node.name: node for node in nodes}
        self.at: dict[str, list[str]] = {}
        for node in nodes:
            self.at.setdefault(node.address, []).append(node.name)


def rehearsal_of(run: Run) -> Cluster | None:
    """The cluster that exists for this run or its experiment alone, if there is one."""
    return run.spec.rehearsed(run.id)


def rehearsal_nodes(engine: AttachedEngine, run: Run) -> Sequence[Node]:
    """The nodes of the run's own rehearsal cluster; none if its engine cannot provide any."""
    cluster = rehearsal_of(run)
    if cluster is None or engine.describer is None:
        return ()
    return engine.describer.cluster_nodes(cluster)
