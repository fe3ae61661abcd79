"""Reports on the cluster: nodes with their load, dry runs, and usage. Called by `service`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from tarmac.api.clusters import NodeRun
from tarmac.api.placement import Prospects, RunUtilization, SlotHistory
from tarmac.control.admission import Submission, new_run_record, refuse_system_packages, refuse_system_user
from tarmac.control.decisions.steps import placed
from tarmac.control.delegation import learn_capacity, request_of
from tarmac.control.permissions import Action, check, may_see
from tarmac.control.reconcilers.deliver import launch_of
from tarmac.control.reconcilers.schedule import FIRST_PORT
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.facts import candidate_of
from tarmac.control.state.node_inventory import rehearsal_nodes
from tarmac.launch.unicore_job import site_text
from tarmac.model.abilities import ReadsReports
from tarmac.model.actor import Actor
from tarmac.model.cluster import Node
from tarmac.model.codec import inherited, replace
from tarmac.model.errors import InvalidInput, Problem, Unavailable
from tarmac.model.people.usage import DAY_S, AttemptSpan, Period, UsedSlots, day_begin, month_begin, periods
from tarmac.model.ports import Engine
from tarmac.model.resources import NodeUtilization, Reason, UsageKey
from tarmac.model.run import Run
from tarmac.node.attempt.document import Launch
from tarmac.sched import Placement, Refusal, Snapshot, explain

DRY_RUN_ID = "dry-run"

_usage_key = attrgetter(*UsageKey.__struct_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A node and its current load."""

    node: Node
    slots_used: int
    runs: tuple[NodeRun, ...]


class DryRun(Prospects, frozen=True, kw_only=True):
    """The effect of a submission: its launch and the engine's own request; nothing is stored.

    `reasons` list why it would wait; the launch is then that of an idle cluster. Both are None if no cluster
    here could ever hold it, and for a run for a site that places runs itself; `rendered` is the request to
    that site, or to the queue of a cluster that has its own. `missing`: named items that do not exist, for
    which a submission would be refused.
    """

    run: Run
    launch: Launch | None
    request: Any
    missing: tuple[Problem, ...] = ()


def node_reports(control: ControlState, actor: Actor | None = None) -> list[NodeReport]:
    """Every present node, with the runs that the actor may see (None: all); the slots of others count."""
    by_node: dict[str, dict[str, NodeRun]] = {}
    hidden: set[str] = set()
    for run, attempt in control.live():
        if actor is not None and not may_see(actor, run):
            hidden.add(run.id)
        for placement in attempt.current_allocation.placements:
            on_node = by_node.setdefault(placement.node, {})
            indexes = placement.slots
            if run.id in on_node:
                indexes = on_node[run.id].indexes + indexes
            on_node[run.id] = NodeRun(
                id=run.id, name=run.name, user=run.user, slots=len(indexes), indexes=indexes
            )
    reports, now = [], control.clock.now()
    for known in control.nodes():
        current = tuple(each for each in known.reservations if each.end_at > now)
        node = replace(known, reservations=current) if known.reservations else known
        runs = tuple(by_node.get(node.name, {}).values())
        seen = tuple(run for run in runs if run.id not in hidden)
        reports.append(NodeReport(node=node, slots_used=sum(run.slots for run in runs), runs=seen))
    return reports


def dry_run(control: ControlState, submission: Submission) -> DryRun:
    """Place and render a submission without starting or storing anything."""
    now = control.clock.now()
    refuse_system_packages(submission.spec, allowed=control.allow_system_packages)
    refuse_system_user(submission.spec, control.engines)
    run = new_run_record(submission, run_id=DRY_RUN_ID, now=now, server=control.server)
    if run.spec.array is not None:  # the first of its members is shown
        run = replace(run, array_id=DRY_RUN_ID, array_index=run.spec.array.values()[0])
    if run.spec.is_burst:  # its nodes are not rented yet
        return DryRun(run=run, launch=None, request=None)
    rendered = site_text(run.spec)
    engine = control.engines.delegate_of(run.spec.target.cluster)
    if rendered is not None and run.spec.rehearsal is None and engine is None:
        return DryRun(run=run, launch=None, request=None, rendered=rendered)
    found = _placed_here(control, run, now) if engine is None else _delegated(control, run, engine, now)
    return replace(found, rendered=found.rendered or rendered)


def _placed_here(control: ControlState, run: Run, now: float) -> DryRun:
    nodes = control.nodes() + tuple(rehearsal_nodes(control.engines.own, run))
    snapshot = control.scheduler_state.snapshot()
    busy = replace(snapshot, nodes=nodes, queue=(*snapshot.queue, candidate_of(run)))
    answer = explain(busy, run.id, now)
    reasons: tuple[Reason, ...] = ()
    if not isinstance(answer, Placement):
        reasons = answer.reasons
        idle = Snapshot(pools=snapshot.pools, nodes=nodes, queue=(candidate_of(run),), holdings=())
        answer = explain(idle, run.id, now)
    unknown = control.engines.with_unknown_nodes(run.spec.target.cluster)
    if isinstance(answer, Refusal) and unknown and run.spec.rehearsal is None:
        names = " and ".join(unknown)
        raise Unavailable(f"the nodes of cluster {names} are not known yet", hint="try again soon")
    if not isinstance(answer, Placement):
        largest = answer.largest if isinstance(answer, Refusal) else None
        return DryRun(run=run, launch=None, request=None, reasons=answer.reasons, largest=largest)
    launch = _launch(control, run, answer, {node.name: node for node in nodes}, now)
    adapter = control.engines.at(answer.allocation.cluster).adapter
    return DryRun(run=run, launch=launch, request=adapter.render(launch), reasons=reasons)


def _delegated(control: ControlState, run: Run, engine: AttachedEngine, now: float) -> DryRun:
    """The requests to a cluster with its own queue."""
    learn_capacity(engine)
    request = request_of(run, engine, now)
    if request is None:
        raise Unavailable(f"nothing is known yet of cluster {run.spec.target.cluster}", hint="try again soon")
    if isinstance(request, Refusal):
        return DryRun(run=run, launch=None, request=None, reasons=request.reasons, largest=request.largest)
    launch = _launch(control, run, request, {}, now)
    native = engine.adapter.render(launch)
    script = engine.delegate.script(native) if engine.delegate is not None else None
    return DryRun(run=run, launch=launch, request=native, rendered=script)


def _launch(
    control: ControlState, run: Run, placement: Placement, nodes: dict[str, Node], now: float
) -> Launch:
    allocation = placement.allocation
    engine, port = control.engines.at(allocation.cluster).name, None if allocation.delegated else FIRST_PORT
    step = placed(run, placement, engine=engine, token="", port=port, now=now)
    assert step.attempt is not None, "placing makes an attempt"
    return launch_of(control, step.after, step.attempt, nodes)


class UsageReport:
    """The questions about usage."""

    def __init__(self, control: ControlState) -> None:
        self._control = control

    def used_slots(
        self, actor: Actor, since: float | None, until: float | None, per: Period | None = None
    ) -> list[UsedSlots]:
        """The usage from `since` until `until` (now, at the latest), by user, project, cluster and pool.

        With `per`, also by day or month. Removed runs count. Raises InvalidInput where the range is empty.
        """
        check(actor, Action.READ)
        now = self._control.clock.now()
        begin, end = since or 0.0, min(now, until) if until is not None else now
        if begin >= end:
            raise InvalidInput("the range of time is empty: `since` must lie before `until`, and before now")
        first = -day_begin(-begin)
        last = max(first, day_begin(end) if end < now else -day_begin(-end))  # nothing has ended after now
        edges = [each for each in ((begin, min(first, end)), (last, end)) if each[0] < each[1]]
        used, spans = self._control.store.used_slots((first, last), edges, by_day=per is not None)
        for span in spans:
            ranges = edges if span.end is not None else [(begin, end)]
            used += (part for each in ranges for part in _parts(span, *each, per))
        found: dict[tuple[float, tuple[str, ...]], UsedSlots] = {}
        for part in used:
            if may_see(actor, part):
                at = month_begin(part.begin_at or 0.0) if per is Period.MONTH else part.begin_at
                whole = part if at == part.begin_at else replace(part, begin_at=at)
                key = at or 0.0, _usage_key(part)
                found[key] = found[key].with_more(part) if key in found else whole
        return [each for _, each in sorted(found.items())]

    def history(self, actor: Actor, since: float | None, steps: int) -> list[SlotHistory]:
        """The mean number of slots in use from `since` (None: for a day) until now, by pool.

        Raises InvalidInput where the range is empty.
        """
        check(actor, Action.READ)
        now = self._control.clock.now()
        begin = now - DAY_S if since is None else since
        if begin >= now:
            raise InvalidInput("the range of time is empty: `since` must lie before now")
        step_s = (now - begin) / steps
        pools: dict[tuple[str, str], list[float]] = {}
        for span in self._control.store.attempt_spans(begin, now):
            if may_see(actor, span):
                used = pools.setdefault((span.cluster, span.pool), [0.0] * steps)
                first = int(max(0.0, span.begin - begin) / step_s)
                last = int(((span.end or now) - begin) / step_s)
                for step in range(first, min(last + 1, steps)):
                    used[step] += span.slot_s(begin + step * step_s, begin + (step + 1) * step_s) / step_s
        return [
            SlotHistory(cluster=cluster, pool=pool, since=begin, step_s=step_s, slots=tuple(used))
            for (cluster, pool), used in sorted(pools.items())
        ]

    def attempt_utilization(self, actor: Actor, attempt_id: str) -> Sequence[NodeUtilization]:
        """The current usage of an attempt's workers; nothing if it is over, or without measurements."""
        check(actor, Action.READ)
        with self._control.engine_of(attempt_id).question() as engine:
            return _measured(engine, [attempt_id]).get(attempt_id, ())

    def utilization(self, actor: Actor) -> list[RunUtilization]:
        """The current usage of every measured live run of this server, by id."""
        check(actor, Action.READ)
        found: list[RunUtilization] = []
        for attached in self._control.engines:
            live = self._control.live_on(attached)
            runs = {attempt.id: run.id for run, attempt in live if may_see(actor, run)}
            if not runs:
                continue
            with attached.question() as engine:
                measured = _measured(engine, list(runs))
            found += [RunUtilization(run=runs[each], nodes=tuple(nodes)) for each, nodes in measured.items()]
        return sorted(found, key=lambda each: each.run)


def _parts(span: AttemptSpan, since: float, until: float, per: Period | None) -> Iterator[UsedSlots]:
    """The usage of an attempt in a range of time, for each day or month that it used."""
    since, until = max(since, span.begin), until if span.end is None else min(until, span.end)
    if since >= until:
        return
    for first, after in periods(per, since, until) if per else ((since, until),):
        runs, attempts, slot_s = span.counted(max(since, first), min(until, after))
        key = inherited(UsageKey, span)
        yield UsedSlots(**key, runs=runs, attempts=attempts, slot_s=slot_s, begin_at=first if per else None)


def _measured(engine: Engine[Any], attempt_ids: Sequence[str]) -> Mapping[str, Sequence[NodeUtilization]]:
    return engine.utilization(attempt_ids) if isinstance(engine, ReadsReports) else {}
