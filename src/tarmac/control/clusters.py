"""Adds, replaces, removes and shows clusters while a server runs.

Called by `service`. A change is checked as a whole against running and waiting runs, then made in one durable
write: it never moves a run, and every accepted run keeps a cluster that can hold it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tarmac import api
from tarmac.api import ClusterKind, NodeKind, PoolRules
from tarmac.control.delegation import capacity_of, offers_of
from tarmac.control.permissions import Action, check
from tarmac.control.queue.delegated_queue import delegated_pools
from tarmac.control.reports import NodeReport, node_reports
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.control.state.facts import candidate_of
from tarmac.model import cluster as model
from tarmac.model.actor import Actor
from tarmac.model.codec import common, replace
from tarmac.model.errors import InvalidInput, NotFound, Refused, Unavailable, listed, suggestion
from tarmac.model.progress import CauseCode
from tarmac.model.resources import Resources
from tarmac.model.run import Run
from tarmac.sched import Candidate, Refusal, Snapshot, explain

NAMED = 4
"""The number of runs that a refusal names."""


class Clusters:
    """Commands and questions about clusters. From any thread."""

    def __init__(self, control: ControlState) -> None:
        self._control = control

    # --- questions

    def all(self, actor: Actor) -> list[api.Cluster]:
        """Every lasting cluster; rehearsals exist only with their runs."""
        check(actor, Action.READ)
        return [report for report in self._reports() if report.kind is not ClusterKind.REHEARSAL]

    def show(self, actor: Actor, name: str) -> api.Cluster:
        """The cluster of this name, including rehearsals; raises NotFound with the nearest name."""
        check(actor, Action.READ)
        return self._find(name)

    def _find(self, name: str) -> api.Cluster:
        reports = {report.name: report for report in self._reports()}
        if name not in reports:
            raise _unknown(name, reports)
        return reports[name]

    def check(self) -> None:
        """Raise InvalidInput if a node of the engine and a described node have the same name."""
        _refuse_namesakes(self._control.lasting_nodes())

    # --- commands

    def add(self, actor: Actor, cluster: model.Cluster, *, replacing: bool = False) -> api.Cluster:
        """Add a described cluster durably; the same description again changes nothing.

        With `replacing`, it replaces the cluster of its name: raises Refused if a run holds a resource that
        would disappear, or waits for one that no other cluster has.
        """
        check(actor, Action.MANAGE)
        control = self._control
        with control.lock:
            control.look_at_clusters()
            old = control.inventory.described(cluster.name)
            cluster = replace(cluster, server=control.server, added_by=actor.user)
            if old is not None and old.machines:
                raise Refused(
                    f"cluster {old.name} was started by tarmac cluster up",
                    hint="change its hosts file instead",
                )
            if old is not None and replace(old, assigned={}, added_by=actor.user) == cluster:
                return self._find(cluster.name)
            self.check_kind(cluster)
            self._refuse_name(cluster.name, taken=old is not None and not replacing)
            others = tuple(known for known in control.store.clusters() if known.name != cluster.name)
            describer = control.engines.own.describer if control.engines.serves(cluster) else None
            prepared = cluster if describer is None else describer.prepared(cluster, old, others)
            nodes = tuple(control.inventory.nodes_of(prepared)) if control.engines.serves(cluster) else ()
            rest = tuple(node for node in control.lasting_nodes() if node.cluster != cluster.name)
            _refuse_namesakes((*rest, *nodes))
            if old is None:  # remaining marks of a cluster of this name, if a server died during its removal
                self._undrain({node.name for node in nodes})
            else:
                self._refuse_loss(old.name, nodes, rest)
            control.store.put_cluster(prepared)
            control.look_at_clusters()
        control.event_bus.notify(Wakeup.SCHEDULE)
        return self._find(cluster.name)

    def remove(self, actor: Actor, name: str) -> api.Cluster:
        """Remove a described cluster and return it. Raises Refused as `check_removal` does."""
        with self._control.lock:
            report = self.check_removal(actor, name)
            self.forget(name)
        return report

    def check_removal(self, actor: Actor, name: str) -> api.Cluster:
        """The described cluster, if removable. Raises Refused while a run holds or needs its nodes."""
        check(actor, Action.MANAGE)
        control = self._control
        with control.lock:
            control.look_at_clusters()
            report = self._find(name)
            if report.kind is ClusterKind.REHEARSAL:
                raise Refused(f"{name} is a rehearsal: it goes when its run has ended")
            if name.startswith(model.BURST_PREFIX):
                raise Refused(f"{name} is rented for a run: it is given back when that has ended or stopped")
            if report.kind is ClusterKind.OWN:
                raise Refused(
                    f"{name} is the {report.engine} engine's own cluster", hint="settings.toml describes it"
                )
            described = control.inventory.described(name)
            if described is not None and described.machines:
                hint = f"tarmac cluster down {name} ends it"
                raise Refused(f"cluster {name} was started by tarmac cluster up", hint=hint)
            self.refuse_removal(name)
        return report

    def check_kind(self, cluster: model.Cluster) -> None:
        """Raise InvalidInput for a description with which its engine cannot be opened."""
        engines = self._control.engines
        if engines.serves(cluster):
            if cluster.settings or cluster.credentials:
                raise InvalidInput(f"the engine {cluster.engine!r} takes no settings and no credentials")
            if not cluster.groups:
                raise InvalidInput(f"cluster {cluster.name} has no nodes", hint="describe some under 'nodes'")
            return
        kind = engines.kinds.get(cluster.engine)
        if kind is None:
            known = sorted({model.LOCAL_ENGINE, *engines.kinds})
            hint = suggestion(cluster.engine, known, f"engines: {', '.join(known)}")
            raise InvalidInput(f"there is no engine {cluster.engine!r} here", hint=hint)
        kind.check(cluster)

    # --- for clusters that are started

    def check_start(self, name: str, old: model.Cluster | None) -> None:
        """Raise Refused if another cluster already has this name."""
        with self._control.lock:
            if old is not None and not old.machines:
                raise Refused(
                    f"there is a cluster {name!r} already, which tarmac cluster up did not start",
                    hint="another name for the file, or --name",
                )
            self._refuse_name(name, taken=False)

    def record(self, cluster: model.Cluster) -> None:
        """Store a started or starting cluster durably, in place of the one of its name."""
        with self._control.lock:
            self.check_kind(cluster)
            self._control.store.put_cluster(cluster)
            self._control.look_at_clusters()
        self._control.event_bus.notify(Wakeup.SCHEDULE)

    def forget(self, name: str) -> None:
        """Remove the cluster and the marks on its nodes, whatever runs there."""
        control = self._control
        with control.lock:
            nodes = {node.name for node in control.lasting_nodes() if node.cluster == name}
            control.store.remove_cluster(name)
            self._undrain(nodes)
            control.look_at_clusters()
        control.event_bus.notify(Wakeup.SCHEDULE)

    def refuse_removal(self, name: str, *, hint: str | None = None) -> None:
        """Raise Refused while a run holds nodes of the cluster or needs them."""
        with self._control.lock:
            rest = tuple(node for node in self._control.lasting_nodes() if node.cluster != name)
            self._refuse_loss(name, (), rest, hint=hint)

    def examine(self, actor: Actor, name: str) -> list[model.Finding]:
        """Check a cluster for the requirements of runs; raises NotFound for an unknown one. May take long."""
        check(actor, Action.SUBMIT)
        self._find(name)
        control = self._control
        engine = control.engines.at(name)
        described = control.inventory.described(name) or model.Cluster(name=name)
        try:
            with engine.question() as adapter:
                adapter.observe([])
                answers = model.Finding(what="engine", ok=True, text=f"{engine.name} answers")
                found = [] if engine.examiner is None else list(engine.examiner.examine(described))
        except Unavailable as error:
            return [model.Finding(what="engine", ok=False, text=str(error))]
        return [answers, *found, _offer(self._find(name))]

    # --- inside

    def _reports(self) -> Iterator[api.Cluster]:
        control = self._control
        with control.lock:
            pools, _ = control.offer()
            reports = node_reports(control)
            described = {cluster.name: cluster for cluster in control.inventory.clusters}
        nodes: dict[str, list[NodeReport]] = {}
        for report in reports:
            nodes.setdefault(report.node.cluster, []).append(report)
        for cluster in control.inventory.clusters:
            if not control.engines.serves(cluster):
                nodes.setdefault(cluster.name, [])
        for engine in control.engines:
            for node in capacity_of(engine):
                nodes.setdefault(node.cluster, []).append(NodeReport(node=node, slots_used=0, runs=()))
        pools += delegated_pools(control)
        for name, members in nodes.items():
            delegated = control.engines.delegate_of(name) is not None
            kind = ClusterKind.ADDED if name in described else ClusterKind.OWN
            up = [item for item in members if item.node.state is model.NodeState.UP]
            yield api.Cluster(
                name=name,
                engine=control.engines.at(name).name,
                delegated=delegated,
                trouble=control.engines.at(name).trouble(control.clock.now()),
                kind=ClusterKind.REHEARSAL if name.startswith(model.REHEARSAL_PREFIX) else kind,
                **_amounts(members),
                slots_free=sum(item.node.capacity.slots - item.slots_used for item in up),
                pools=[_rules(pool, members) for pool in pools if pool.cluster == name],
                node_kinds=_kinds(members),
                settings=described[name].settings if name in described else {},
                queues=offers_of(control.engines.at(name)) if delegated else (),
                warnings=(),
            )

    def _refuse_name(self, name: str, *, taken: bool) -> None:
        if taken:
            raise Refused(
                f"there is a cluster {name!r} already, of another shape",
                hint=f"--replace puts this one in its place; tarmac clusters show {name} shows it",
            )
        described = {cluster.name for cluster in self._control.inventory.clusters}
        own = {node.cluster for node in self._control.lasting_nodes()} - described
        elsewhere = {record.cluster for record in self._control.store.servers()} | {
            cluster.name
            for cluster in self._control.store.clusters()
            if cluster.server != self._control.server
        }
        if name in own | elsewhere or name.startswith(model.OF_ONE_RUN):
            raise Refused(f"a cluster cannot be called {name!r}: that name is taken", hint="another name")

    def _undrain(self, names: set[str]) -> None:
        if marked := names & self._control.store.drained_nodes().keys():
            self._control.store.set_drained(marked, None)

    def _refuse_loss(
        self, name: str, nodes: Sequence[model.Node], rest: Sequence[model.Node], *, hint: str | None = None
    ) -> None:
        """Raise Refused if a run holds or needs a current node that is missing from the new `nodes`."""
        losses = list(_losses(self._control, name, {node.name: node for node in nodes}))
        if losses:
            raise Refused(
                f"cluster {name} keeps what runs hold: {listed(losses, NAMED, '; ')}",
                hint=hint
                or "tarmac nodes drain gives them no new work; wait for what runs there, or stop it",
            )
        stranded = list(_stranded(self._control, name, (*rest, *nodes)))
        if stranded:
            raise Refused(
                f"runs need cluster {name} as it is: {listed(stranded, NAMED, '; ')}",
                hint=hint or "stop them, or submit them again for another cluster",
            )


def _offer(report: api.Cluster) -> model.Finding:
    """The resources that the cluster offers."""
    text = "nothing is known of them yet"
    if nodes := report.nodes:
        text = f"{nodes} node{'s' if nodes != 1 else ''}, {report.slots} slots"
    return model.Finding(what="nodes", ok=bool(nodes), text=text)


def _rules(pool: model.Pool, nodes: Iterable[NodeReport]) -> PoolRules:
    within = [item for item in nodes if item.node.pool == pool.name]
    return PoolRules(**_amounts(within), **common(PoolRules, pool))


def _kinds(nodes: Iterable[NodeReport]) -> list[NodeKind]:
    """One record for all nodes of the same pool, shard and capacity."""
    kinds: dict[tuple[str, str | None, Resources], list[NodeReport]] = {}
    for item in nodes:
        kinds.setdefault((item.node.pool, item.node.shard, item.node.capacity), []).append(item)
    return [
        NodeKind(
            pool=pool,
            shard=shard,
            slot_type=capacity.slot_type,
            slots_each=capacity.slots,
            cpus_each=capacity.cpus,
            memory_bytes_each=capacity.memory_bytes,
            **_amounts(members),
            states=Counter(str(item.node.state) for item in members),
            hostnames=[members[0].node.hostname, members[-1].node.hostname][: len(members)],
        )
        for (pool, shard, capacity), members in kinds.items()
    ]


def _amounts(nodes: Sequence[NodeReport]) -> dict[str, Any]:
    return {
        "nodes": len(nodes),
        "slots": sum(item.node.capacity.slots for item in nodes),
        "slots_used": sum(item.slots_used for item in nodes),
    }


def _losses(control: ControlState, name: str, nodes: dict[str, model.Node]) -> Iterator[str]:
    """Sentences on the resources that runs hold and that `nodes` lacks, one for each run and node."""
    use: dict[str, Resources] = {}
    for run, attempt in control.live():
        if attempt.allocation.cluster != name:
            continue
        reported: set[str] = set()
        if attempt.allocated_at is None:
            yield f"{run.name} ({run.id}) waits in its queue"
            continue
        for placement in attempt.current_allocation.placements:
            amount = Resources(cpus=placement.cpus, memory_bytes=placement.memory_bytes)
            use[placement.node] = use.get(placement.node, Resources()).plus(amount)
            node = nodes.get(placement.node)
            lack = None
            if node is None:
                lack = "would be gone"
            elif node.pool != attempt.allocation.pool:
                lack = f"would be in pool {node.pool}"
            elif max(placement.slots, default=-1) >= node.capacity.slots:
                lack = f"would have {node.capacity.slots} slots"
            elif use[placement.node].cpus > node.capacity.cpus:
                lack = f"would have {node.capacity.cpus:g} cpus"
            elif use[placement.node].memory_bytes > node.capacity.memory_bytes:
                lack = "would have too little memory"
            if lack is not None and placement.node not in reported:
                reported.add(placement.node)
                yield f"{run.name} ({run.id}) holds {placement.node}, which {lack}"


def _stranded(control: ControlState, name: str, after: tuple[model.Node, ...]) -> Iterator[str]:
    """Sentences on the runs that the present nodes could ever hold and those `after` the change could not."""
    runs = control.live_runs()
    if control.engines.delegate_of(name) is not None:
        yield from (_waiting(run) for run in runs if run.spec.target.cluster == name)
        return
    before = control.lasting_nodes()
    lost_by_shape: dict[object, bool] = {}
    for run in runs:
        if run.spec.has_own_cluster or not model.admits(name, run.spec.target.cluster):
            continue
        candidate = candidate_of(run)
        shape = (candidate.demands, candidate.target, candidate.pool)
        if shape not in lost_by_shape:
            lost_by_shape[shape] = _never_fits(candidate, after) and not _never_fits(candidate, before)
        if lost_by_shape[shape]:
            yield _waiting(run)


def _never_fits(candidate: Candidate, nodes: tuple[model.Node, ...]) -> bool:
    if not nodes:
        return True
    idle = Snapshot(pools=(), nodes=nodes, queue=(candidate,), holdings=())
    answer = explain(idle, candidate.run_id, candidate.submitted_at)
    return isinstance(answer, Refusal) and answer.code is CauseCode.NEVER_FITS


def _waiting(run: Run) -> str:
    return f"{run.name} ({run.id}, {run.state})"


def _refuse_namesakes(nodes: Sequence[model.Node]) -> None:
    seen: dict[str, model.Node] = {}
    for node in nodes:
        other = seen.setdefault(node.name, node)
        if other is not node:
            raise InvalidInput(
                f"two nodes would be called {node.name!r}: of cluster {other.cluster} and of {node.cluster}",
                hint="give one of them another host name",
            )


def _unknown(name: str, known: dict[str, api.Cluster]) -> NotFound:
    hint = suggestion(name, known, f"clusters: {', '.join(sorted(known))}")
    return NotFound(f"there is no cluster {name!r}", hint=hint)
