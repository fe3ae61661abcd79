"""Clusters that come and go while a server runs: adding, replacing, removing and showing them.

Called by `service`. A change is checked whole against what runs and waits, then made in one durable write: it
never moves a run, and nothing that was accepted is left without a cluster that can hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv4Address

from tarmac.control.facts import candidate_of
from tarmac.control.hub import Bell
from tarmac.control.reports import NodeReport, node_reports
from tarmac.control.world import World
from tarmac.model.cluster import REHEARSAL_PREFIX, Cluster, Node, Pool, admits
from tarmac.model.described import hostnames_of
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.resources import Resources
from tarmac.model.run import CauseCode, Run
from tarmac.model.text import listed, nearest
from tarmac.sched import Candidate, Refusal, Snapshot, explain

ADDED_FIRST = int(IPv4Address("127.128.0.1"))
ADDED_LAST = int(IPv4Address("127.255.255.254"))
"""The half of the loopback network that clusters are added in; below are the local one and rehearsals."""

NAMED = 4
"""How many runs a refusal names."""

Span = tuple[int, int]


class ClusterKind(StrEnum):
    """Where a cluster comes from."""

    OWN = "own"  # the engine's: this machine, or what the settings say
    ADDED = "added"  # described and added by a person
    REHEARSAL = "rehearsal"  # for one run alone


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """A cluster: its pools with the rules that hold in them, and its nodes with what they hold now."""

    name: str
    engine: str
    kind: ClusterKind
    pools: tuple[Pool, ...]
    nodes: tuple[NodeReport, ...]


class Clusters:
    """Commands and questions about clusters. From any thread."""

    def __init__(self, world: World) -> None:
        self._world = world

    # --- questions

    def all(self) -> list[ClusterReport]:
        """Every lasting cluster; rehearsals come and go with their runs."""
        return [report for report in self._reports() if report.kind is not ClusterKind.REHEARSAL]

    def find(self, name: str) -> ClusterReport:
        """The cluster of this name, of a rehearsal too; raises NotFound with the nearest."""
        reports = {report.name: report for report in self._reports()}
        if name not in reports:
            raise _unknown(name, reports)
        return reports[name]

    def check(self) -> None:
        """Raise InvalidInput where the engine's own nodes and described ones are called alike."""
        _refuse_namesakes(self._world.standing())

    # --- commands

    def add(self, cluster: Cluster, *, replacing: bool = False) -> ClusterReport:
        """Take a described cluster up, durably; the same description again changes nothing.

        With `replacing`, it takes the place of the one of its name: raises Refused where a run holds what
        would no longer be there, or waits for what no other cluster has.
        """
        world = self._world
        with world.lock:
            world.look_at_clusters()
            old = next((known for known in world.fleet.clusters if known.name == cluster.name), None)
            cluster = replace(cluster, server=world.server)
            if old is not None and replace(old, first_address=None) == cluster:
                return self.find(cluster.name)
            self._refuse_name(cluster.name, taken=old is not None and not replacing)
            others = tuple(known for known in world.store.clusters() if known.name != cluster.name)
            placed = replace(cluster, first_address=_place(cluster, old, others))
            nodes = tuple(world.fleet.nodes_of(placed))
            rest = tuple(node for node in world.standing() if node.cluster != cluster.name)
            _refuse_namesakes((*rest, *nodes))
            if old is None:  # marks that a cluster of this name left, if a server died while it was removed
                self._undrain({node.name for node in nodes})
            else:
                self._refuse_loss(old.name, nodes, rest)
            world.store.put_cluster(placed)
            world.look_at_clusters()
        world.hub.ring(Bell.SCHEDULE)
        return self.find(cluster.name)

    def remove(self, name: str) -> ClusterReport:
        """Forget a described cluster; it, as it was. Raises Refused while a run holds or needs its nodes."""
        world = self._world
        with world.lock:
            world.look_at_clusters()
            report = self.find(name)
            if report.kind is ClusterKind.REHEARSAL:
                raise Refused(f"{name} is a rehearsal: it goes when its run has ended")
            if report.kind is ClusterKind.OWN:
                raise Refused(
                    f"{name} is the {report.engine} engine's own cluster", hint="settings.toml describes it"
                )
            rest = tuple(node for node in world.standing() if node.cluster != name)
            self._refuse_loss(name, (), rest)
            world.store.remove_cluster(name)
            self._undrain({item.node.name for item in report.nodes})
            world.look_at_clusters()
        world.hub.ring(Bell.SCHEDULE)
        return report

    # --- inside

    def _reports(self) -> Iterator[ClusterReport]:
        world = self._world
        with world.lock:
            pools, _ = world.offer()
            reports = node_reports(world)
            described = {cluster.name for cluster in world.fleet.clusters}
        nodes: dict[str, list[NodeReport]] = {}
        for report in reports:
            nodes.setdefault(report.node.cluster, []).append(report)
        for name, members in nodes.items():
            kind = ClusterKind.ADDED if name in described else ClusterKind.OWN
            yield ClusterReport(
                name=name,
                engine=world.engines.at(name).name,
                kind=ClusterKind.REHEARSAL if name.startswith(REHEARSAL_PREFIX) else kind,
                pools=tuple(pool for pool in pools if pool.cluster == name),
                nodes=tuple(members),
            )

    def _refuse_name(self, name: str, *, taken: bool) -> None:
        if taken:
            raise Refused(
                f"there is a cluster {name!r} already, of another shape",
                hint=f"--replace puts this one in its place; tarmac clusters show {name} shows it",
            )
        described = {cluster.name for cluster in self._world.fleet.clusters}
        own = {node.cluster for node in self._world.standing()} - described
        elsewhere = {record.cluster for record in self._world.store.servers()} | {
            cluster.name for cluster in self._world.store.clusters() if cluster.server != self._world.server
        }
        if name in own | elsewhere or name.startswith(REHEARSAL_PREFIX):
            raise Refused(f"a cluster cannot be called {name!r}: that name is taken", hint="another name")

    def _undrain(self, names: set[str]) -> None:
        if marked := names & self._world.store.drained_nodes():
            self._world.store.set_drained(marked, False)

    def _refuse_loss(self, name: str, nodes: Sequence[Node], rest: Sequence[Node]) -> None:
        """Raise Refused if a run holds or needs what is there now and not in `nodes`, its new ones."""
        held = list(_held(self._world, name, {node.name: node for node in nodes}))
        if held:
            raise Refused(
                f"cluster {name} keeps what runs hold: {listed(held, NAMED, '; ')}",
                hint="tarmac nodes drain gives them no new work; wait for what runs there, or stop it",
            )
        stranded = list(_stranded(self._world, name, (*rest, *nodes)))
        if stranded:
            raise Refused(
                f"runs need cluster {name} as it is: {listed(stranded, NAMED, '; ')}",
                hint="stop them, or submit them again for another cluster",
            )


def _held(world: World, name: str, nodes: dict[str, Node]) -> Iterator[str]:
    """What runs hold of the cluster and would not find in `nodes`, in words, one for each run and node."""
    held: dict[str, Resources] = {}
    for run, attempt in world.live():
        if attempt.allocation.cluster != name:
            continue
        told: set[str] = set()
        for seat in attempt.held.seats:
            amount = Resources(cpus=seat.cpus, memory_bytes=seat.memory_bytes)
            held[seat.node] = held.get(seat.node, Resources()).plus(amount)
            node = nodes.get(seat.node)
            lack = None
            if node is None:
                lack = "would be gone"
            elif node.pool != attempt.allocation.pool:
                lack = f"would be in pool {node.pool}"
            elif max(seat.slots, default=-1) >= node.capacity.slots:
                lack = f"would have {node.capacity.slots} slots"
            elif held[seat.node].cpus > node.capacity.cpus:
                lack = f"would have {node.capacity.cpus:g} cpus"
            elif held[seat.node].memory_bytes > node.capacity.memory_bytes:
                lack = "would have too little memory"
            if lack is not None and seat.node not in told:
                told.add(seat.node)
                yield f"{run.name} ({run.id}) holds {seat.node}, which {lack}"


def _stranded(world: World, name: str, after: tuple[Node, ...]) -> Iterator[str]:
    """Runs that the nodes there are now could ever hold, and those `after` the change could not, in words."""
    before = world.standing()
    with world.lock:
        runs = [
            run
            for run in world.mirror().runs.values()
            if run.spec.rehearsal is None and admits(name, run.spec.target.cluster)
        ]
    judged: dict[object, bool] = {}
    for run in runs:
        candidate = candidate_of(run)
        shape = (candidate.demands, candidate.target, candidate.pool)
        if shape not in judged:
            judged[shape] = _never_fits(candidate, after) and not _never_fits(candidate, before)
        if judged[shape]:
            yield _waiting(run)


def _never_fits(candidate: Candidate, nodes: tuple[Node, ...]) -> bool:
    if not nodes:
        return True
    idle = Snapshot(pools=(), nodes=nodes, queue=(candidate,), holdings=())
    verdict = explain(idle, candidate.run_id, candidate.submitted_at)
    return isinstance(verdict, Refusal) and verdict.code is CauseCode.NEVER_FITS


def _waiting(run: Run) -> str:
    return f"{run.name} ({run.id}, {run.state})"


def _refuse_namesakes(nodes: Sequence[Node]) -> None:
    seen: dict[str, Node] = {}
    for node in nodes:
        other = seen.setdefault(node.name, node)
        if other is not node:
            raise InvalidInput(
                f"two nodes would be called {node.name!r}: of cluster {other.cluster} and of {node.cluster}",
                hint="give one of them another host name",
            )


def _place(cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> str:
    """Where the nodes of a cluster begin: where they were, if those that stay keep their addresses by that.

    Else in the first gap that is large enough, away from the old ones too: whoever runs there keeps those.
    """
    size = sum(group.nodes for group in cluster.groups)
    taken = sorted(span for other in others if (span := _span(other)) is not None)
    if old is not None and old.first_address is not None:
        first = int(IPv4Address(old.first_address))
        apart = all(start > first + size - 1 or end < first for start, end in taken)
        if apart and first + size - 1 <= ADDED_LAST and _in_step(old, cluster):
            return old.first_address
        taken = sorted([*taken, *filter(None, [_span(old)])])
    first = ADDED_FIRST
    for start, end in taken:
        if first + size <= start:
            break
        first = max(first, end + 1)
    if first + size - 1 > ADDED_LAST:
        raise Refused(f"there are no {size} addresses left next to one another for cluster {cluster.name}")
    return str(IPv4Address(first))


def _span(cluster: Cluster) -> Span | None:
    if cluster.first_address is None:
        return None
    first = int(IPv4Address(cluster.first_address))
    return first, first + sum(group.nodes for group in cluster.groups) - 1


def _in_step(old: Cluster, new: Cluster) -> bool:
    """Whether every node of both has the same number in both."""
    before = {hostname: number for number, (_, hostname) in enumerate(hostnames_of(old.groups))}
    return all(
        before.get(hostname, number) == number
        for number, (_, hostname) in enumerate(hostnames_of(new.groups))
    )


def _unknown(name: str, known: dict[str, ClusterReport]) -> NotFound:
    near = nearest(name, known)
    return NotFound(
        f"there is no cluster {name!r}",
        hint=f"did you mean {near}?" if near else f"clusters: {', '.join(sorted(known))}",
    )
