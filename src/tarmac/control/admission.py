"""Admits runs: makes the record of a submission, and refuses runs that can never fit (design section 8).

Called by `service.ControlPlane.submit` and the dry run.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct

from tarmac.control import delegation
from tarmac.control.limits import refuse_over_limits
from tarmac.control.lookup import awaited_runs, members_of
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine, Engines
from tarmac.control.state.facts import Shape, candidate_of
from tarmac.control.state.node_inventory import rehearsal_nodes
from tarmac.launch.compose import container_launch
from tarmac.launch.environment import parameter_names, unknown_names
from tarmac.launch.unicore_job import site_name
from tarmac.model.actor import Actor
from tarmac.model.changes import NewRun
from tarmac.model.cluster import BURST_PREFIX, Cluster, Node, admits
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, IsExperiment, NeverFits, Refused, listed, nearest, suggestion
from tarmac.model.lifecycle import INITIAL_STATE, RunEvent, RunState, steps
from tarmac.model.progress import CauseCode
from tarmac.model.resources import ACCELERATOR, CPU_ONLY, ReasonCode
from tarmac.model.run import Allocation, Run
from tarmac.model.spec import LocalDirectory, RunSpec, SystemPackages, Target
from tarmac.sched import Placement, Refusal, Snapshot, explain

NATIVE = "native"
NAMES_SHOWN = 10
PACKAGES_NAMED = 4
USUAL_SLOTS = 8
"""The usual number of slots per node: the size of a suggested rehearsal's nodes."""

NODES_NAMED = 4
"""The number of nodes with the same reason that a refusal names."""


class Submission(Struct, frozen=True, kw_only=True):
    """A spec that an actor submits. A second submission with the same key gives the same run."""

    spec: RunSpec
    actor: Actor
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The run of a submission; `created` is False if its idempotency key was known.

    `warnings` list probable mistakes, judged on the present nodes.
    """

    run: Run
    created: bool
    warnings: tuple[str, ...] = ()


class Admission:
    """Checks submissions against the present nodes, once per shape of request."""

    def __init__(self, control: ControlState, refuse_burst: Callable[[Run, NeverFits | None], None]) -> None:
        """`refuse_burst` raises Refused for a run that can never have machines, and gets why none here do."""
        self._control = control
        self._refuse_burst = refuse_burst
        self._known: tuple[tuple[Node, ...], dict[Shape, tuple[str, ...]]] = ((), {})

    def new_run(self, submission: Submission, now: float) -> NewRun:
        """The record to store; raises Refused if no empty cluster of this server could ever hold the run."""
        _refuse_what_no_engine_takes(submission.spec, self._control)
        refuse_system_packages(submission.spec, allowed=self._control.allow_system_packages)
        refuse_unknown_parameters(submission.spec)
        refuse_system_user(submission.spec, self._control.engines)
        control = self._control
        run = new_run_record(submission, run_id=control.ids.run_id(now), now=now, server=control.server)
        refuse_over_limits(control, run)
        self._refuse_what_never_fits(run)
        if run.spec.after:
            awaited = awaited_runs(control.store, submission.actor, run.spec.after)
            run = replace(run, dependencies=awaited)
        events: tuple[RunEvent, ...] = (RunEvent.STAGED,) if run.spec.code is None else ()
        if events and run.spec.start_paused:
            events = (*events, RunEvent.PAUSE_REQUESTED)
        state = steps(INITIAL_STATE, events)
        if run.state is not state:
            run = replace(run, state=state, seq=1 + len(events))
        return NewRun(run=run, events=events)

    def new_runs(self, submission: Submission, now: float) -> list[NewRun]:
        """The records of all members of an array, or of the single run; raises Refused as `new_run` does."""
        new = self.new_run(submission, now)
        return [new] if new.run.spec.array is None else members_of(new, self._control.ids, now)

    def warnings(self, run: Run) -> tuple[str, ...]:
        """The warnings for an admitted run, on the nodes that it was checked against."""
        engine = self._control.engines.delegate_of(run.spec.target.cluster)
        if engine is not None and run.spec.rehearsal is None:
            doubt = delegation.queue_doubt(run, engine)
            return () if doubt is None else (doubt,)
        return self._known[1].get(self._control.shapes.of(run.spec), ())

    def _refuse_what_never_fits(self, run: Run) -> None:
        if run.spec.is_burst:
            self._refuse_burst(run, None)
            return
        if run.spec.rehearsal is not None:
            if (engine := self._control.engines.own).describer is not None:
                self._refuse(run, tuple(rehearsal_nodes(engine, run)))
            return
        delegate = self._control.engines.delegate_of(run.spec.target.cluster)
        if delegate is not None:
            delegation.refuse_unknown_hostnames(run.spec, delegate)
            pools = {offer.pool for offer in delegation.offers_of(delegate)}
            _refuse_pool(run.spec, pools or {node.pool for node in delegation.capacity_of(delegate)})
            _refuse_delegated_that_never_fits(run, delegate)
            return
        if self._control.engines.with_unknown_nodes(run.spec.target.cluster):
            return  # the run waits in the queue, which gives the reason
        nodes = self._control.lasting_nodes()
        if nodes is not self._known[0] and nodes != self._known[0]:
            self._known = (nodes, {})
        fitting = self._known[1]
        shape = self._control.shapes.of(run.spec)
        if shape not in fitting:
            refuse_elsewhere(self._control, run.spec)
            possible = (node for node in nodes if admits(node.cluster, run.spec.target.cluster))
            _refuse_pool(run.spec, {node.pool for node in possible})
            fits = any(engine.inventory is not None for engine in self._control.engines)
            try:
                fitting[shape] = self._refuse(run, nodes) if fits else ()
            except NeverFits as refusal:
                self._refuse_burst(run, refusal)

    def _refuse(self, run: Run, nodes: tuple[Node, ...]) -> tuple[str, ...]:
        """Refuse a run that fits no empty node; otherwise return the warnings for the nodes that it fits."""
        idle = Snapshot(pools=(), nodes=nodes, queue=(candidate_of(run),), holdings=())
        answer = explain(idle, run.id, run.created_at)
        if isinstance(answer, Refusal) and answer.code is CauseCode.NEVER_FITS:
            unknown = any(reason.code is ReasonCode.NO_SUCH_CLUSTER for reason in answer.reasons)
            clusters = {node.cluster for node in nodes} | {each.key for each in self._control.engines} - {""}
            others = _elsewhere(run.spec, clusters if unknown else ())
            hint = f"what would fit: {answer.largest}" if answer.largest else others
            raise _never_fits(run, answer, hint)
        return tuple(_unequal(answer.allocation)) if isinstance(answer, Placement) else ()


def _refuse_delegated_that_never_fits(run: Run, engine: AttachedEngine) -> None:
    """Refuse a run that a cluster with its own queue can never give its nodes."""
    answer = delegation.request_of(run, engine, run.created_at)
    if not isinstance(answer, Refusal) or answer.code is not CauseCode.NEVER_FITS:
        return
    others = [f"--pool {pool} could hold it" for pool in delegation.other_pools(run, engine, run.created_at)]
    hint = [*others, *([f"what would fit: {answer.largest}"] if answer.largest else [])]
    raise _never_fits(run, answer, "; ".join(hint) or None)


def _never_fits(run: Run, refusal: Refusal, hint: str | None) -> NeverFits:
    reasons = refusal_reasons(refusal)
    return NeverFits(f"{run.name} can never start here: {'; '.join(reasons)}", hint=hint, reasons=reasons)


def _unequal(allocation: Allocation) -> Iterator[str]:
    """A warning for each role whose slots cannot be split equally over its nodes."""
    for role in dict.fromkeys(placement.role for placement in allocation.placements):
        parts = [len(placement.slots) for placement in allocation.placements if placement.role == role]
        if len(set(parts)) > 1:
            yield (
                f"slots: {sum(parts)} cannot be split equally over few nodes here: {len(parts)} nodes get "
                f"{' + '.join(map(str, parts))}, so N_PROC differs from node to node"
            )


def _refuse_pool(spec: RunSpec, pools: Collection[str]) -> None:
    """Refuse a run whose pool exists on none of its possible clusters, and list the existing pools."""
    pool = spec.target.pool
    if pool is not None and pools and pool not in pools:
        near = nearest(pool, pools)
        guess = f"did you mean {near}? " if near else ""
        names = "" if near else f"; [names] in settings.toml says what {pool!r} is called here"
        raise Refused(
            f"{spec.name} wants pool {pool!r}, and there is none of that name",
            hint=f"{guess}pools: {', '.join(sorted(pools))}{names}",
        )


def refuse_elsewhere(control: ControlState, spec: RunSpec) -> None:
    """Refuse a run for a cluster that another server on the same database serves."""
    cluster = spec.target.cluster
    if cluster is None or any(node.cluster == cluster for node in control.lasting_nodes()):
        return
    servers = {record.cluster: record for record in control.store.servers()}
    owners = {cluster.name: cluster.server for cluster in control.store.clusters()}
    record = servers.get(owners.get(cluster, cluster))
    if record is not None and record.cluster != control.server:
        raise Refused(
            f"{spec.name} wants cluster {cluster}, which {record.home} serves",
            hint="submit it to the server there",
        )


def _elsewhere(spec: RunSpec, clusters: Collection[str]) -> str | None:
    """A suggestion for a run that fits nowhere: a run written for another machine can be rehearsed.

    `clusters`: all clusters of this server, if the run names none of them.
    """
    if spec.rehearsal is not None:
        return None
    nodes = -(-spec.slots // USUAL_SLOTS) or 1
    shape = f"{nodes}x{-(-spec.slots // nodes) or 1}"
    tried = f"--rehearse {shape} tries it on this machine"
    if clusters:
        names = f"[names] in settings.toml what {spec.target.cluster!r} is called here"
        guess = suggestion(str(spec.target.cluster), clusters, f"clusters: {', '.join(sorted(clusters))};")
        return f"{guess} {tried}; --cluster names another, and {names}"
    if any(role.slot_type == ACCELERATOR for role in spec.roles):
        return f"{tried}; --gpu-type {CPU_ONLY} runs it on slots without a GPU"
    return f"{tried}; --cluster, --gpu-type and the like ask otherwise"


def _refuse_what_no_engine_takes(spec: RunSpec, control: ControlState) -> None:
    delegate = control.engines.delegate_of(spec.target.cluster)  # it accepts settings for sites as well
    if spec.site is None or spec.rehearsal is not None or delegate is not None:
        return
    address, shape = spec.site.address, f"{spec.site.nodes or 1}x{spec.site.slots_per_node or 1}"
    add = "" if address is None else f"{address.command(spec.site.queue)} adds it; "
    raise Refused(
        f"{spec.name} goes to the site {site_name(spec)}, which is none of the clusters here",
        hint=f"{add}--dry-run shows what the site is sent, --rehearse {shape} runs it on this machine, "
        "--cluster on a Slurm of yours",
    )


def same_request(one: RunSpec, other: RunSpec) -> bool:
    """Whether two submissions are the same, apart from labels and the facts found on their arrival."""
    if one is other:
        return True
    one, other = _comparable(one), _comparable(replace(other, labels=one.labels))
    if one.hook_changes or other.hook_changes:
        one, other = _before_hook(one), _before_hook(other)
    return one == other


def _before_hook(spec: RunSpec) -> RunSpec:
    """The spec without the fields that the site's hook may change: its answer may change with the time."""
    return replace(
        spec,
        target=Target(),
        priority=0,
        time_limit_s=None,
        array=spec.array and replace(spec.array, at_most=None),
        search=spec.search and replace(spec.search, max_slots=None),
        environment=replace(spec.environment, without_container=False),
        hook_changes=(),
    )


def _comparable(spec: RunSpec) -> RunSpec:
    """The spec without the fields that depend on the time and place of its submission."""
    code = spec.code
    if isinstance(code, LocalDirectory):
        code = replace(code, digest=None)
    target = replace(spec.target, cluster=None) if spec.has_own_cluster else spec.target
    return replace(
        spec,
        code=code,
        target=target,
        input_artifacts=(),
        environment=replace(spec.environment, inherited={}),
    )


def refuse_search(spec: RunSpec) -> None:
    """Refuse to submit a search as one run."""
    if spec.search is not None:
        raise IsExperiment(
            f"{spec.name} searches over its parameters: it is an experiment, not one run",
            hint="tarmac experiment create, or tarmac run, begins it",
        )


def refuse_system_packages(spec: RunSpec, *, allowed: bool) -> None:
    """Refuse a run that would install packages on a shared node, unless the server allows it.

    In a container the packages disappear with the attempt.
    """
    step = next((step for step in spec.setup if isinstance(step, SystemPackages)), None)
    if step is not None and not allowed and container_launch(spec) is None:
        named = ", ".join(step.packages[:PACKAGES_NAMED])
        raise Refused(
            f"{spec.name} would install packages of the distribution ({named}), and no container keeps them "
            "from the other users of its nodes",
            hint="have them installed there and take the step out; or, where nodes are yours alone, set "
            "allow_system_packages = true under [setup] in settings.toml",
        )


def refuse_unknown_parameters(spec: RunSpec) -> None:
    """Refuse a native file whose commands use an undefined parameter; other files run unchanged."""
    unknown = unknown_names(spec) if spec.dialect == NATIVE else []
    if unknown:
        known = parameter_names(spec)
        otherwise = f"parameters: {listed(known, NAMES_SHOWN)}" if known else "it has no parameters"
        raise InvalidInput(
            f"{spec.name}: ${{parameters.{unknown[0]}}} in a command names no parameter of it",
            hint=suggestion(unknown[0], known, otherwise),
        )


def completed(submission: Submission, control: ControlState) -> Submission:
    """The submission with the facts that the server adds: the cluster of its site, and its system user.

    The system user is that of its submitter's account, whatever the submission named.
    """
    spec = _at_its_site(submission.spec, control.inventory.clusters)
    name = control.system_user_of(submission.actor.user)
    if name != spec.system_user:
        spec = replace(spec, system_user=name)
    return submission if spec is submission.spec else replace(submission, spec=spec)


def _at_its_site(spec: RunSpec, clusters: Sequence[Cluster]) -> RunSpec:
    """The spec with the cluster that is its site, unless it names a cluster itself.

    Raises Refused if several are.
    """
    address = spec.site.address if spec.site is not None else None
    if address is None or spec.rehearsal is not None or spec.target.cluster is not None:
        return spec
    found = [each.name for each in clusters if address.is_of(each.engine, each.settings)]
    if len(found) > 1:
        raise Refused(
            f"{spec.name} goes to the site {site_name(spec)}, and several clusters are that site",
            hint=f"--cluster chooses one of {', '.join(found)}",
        )
    return replace(spec, target=replace(spec.target, cluster=found[0])) if found else spec


def refuse_system_user(spec: RunSpec, engines: Engines) -> None:
    """Refuse a run that cannot run as the system user of its submitter: it never runs as another one."""
    name = spec.system_user
    if name is None:
        return
    if container_launch(spec) is not None:
        raise Refused(
            f"{spec.name} has an image, and runs of your account run as the system user {name}: no run does"
            " both",
            hint="--no-container starts it without the image",
        )
    for engine in engines.possible(spec):
        if engine.users is None:
            raise Refused(
                f"runs of your account run as the system user {name}, and runs on cluster {engine.key} as the"
                " account of its connection",
                hint="--cluster names one whose nodes run them as that user, such as the server's machine",
            )
        engine.users.check_system_user(name)


def new_run_record(submission: Submission, *, run_id: str, now: float, server: str) -> Run:
    """The run as it would be queued, without a check that it fits. Refuses a burst run with a cluster."""
    spec = submission.spec
    if spec.has_own_cluster:
        if spec.rehearsal is None and spec.target.cluster is not None:
            raise Refused(
                f"{spec.name} is a burst run, and names cluster {spec.target.cluster}: one is rented for it"
                " alone",
                hint="leave the cluster out; --mode batch gives it a place in the queue of that one",
            )
        spec = replace(spec, target=spec.target_of(run_id))
    elif (spec.target.cluster or "").startswith(BURST_PREFIX):
        raise Refused(
            f"{spec.name} names cluster {spec.target.cluster}, which is rented for another run",
            hint="--mode burst rents one for it",
        )
    return Run(
        id=run_id,
        spec=spec,
        user=submission.actor.user,
        state=RunState.QUEUED,
        seq=2,
        created_at=now,
        queued_at=None if spec.code is not None else now,
        idempotency_key=submission.idempotency_key,
        server=server,
    )


def refusal_reasons(refusal: Refusal) -> list[str]:
    """The reasons per node (C10); nodes with the same reason are grouped, and the first few are named."""
    nodes: dict[str, list[str]] = {}
    for reason in refusal.reasons:
        named = nodes.setdefault(reason.text, [])
        if reason.node is not None:
            named.append(reason.node)
    return [f"{listed(named, NODES_NAMED)}: {text}" if named else text for text, named in nodes.items()]
