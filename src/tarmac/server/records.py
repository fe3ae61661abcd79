"""Converts runs, nodes and reasons into records of `tarmac.api`. Called by the routes and streams."""

from collections.abc import Sequence
from signal import Signals
from typing import Any

import msgspec

from tarmac import api
from tarmac.control.reports import DryRun, NodeReport
from tarmac.model import progress
from tarmac.model.cluster import Disks
from tarmac.model.codec import common, encode, inherited, ready
from tarmac.model.lifecycle import RunState
from tarmac.model.notification import Delivery, Notification
from tarmac.model.resources import NodeUtilization
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import RunSpec
from tarmac.model.summary import RunSummary, max_turns_of, summary_of
from tarmac.node.attempt.document import NodeLaunch
from tarmac.node.attempt.protocol import late_address
from tarmac.node.files.secrecy import LEAST_INLINE, hidden, hidden_tree, keys_among, may_hold_secret


def run_record(run: Run, *, warnings: Sequence[str] = (), staged: bool = False) -> api.Run:
    """A run and its spec, without values that look like keys."""
    (spec, source), report = shown(run.spec), run.cycle_report
    return api.Run(
        **inherited(progress.RunProgress, run, but="cycle_report"),
        name=run.name,
        project=run.project,
        dialect=run.spec.dialect,
        mode=run.spec.mode,
        priority=run.place.priority,
        weight=run.place.weight,
        pool=run.place.pool or run.spec.target.pool,
        slots=run.spec.slots,
        max_turns=max_turns_of(run.spec),
        retry_at=run.retry.at if run.retry is not None and run.state is RunState.QUEUED else None,
        cycle_report=None if report is None else api.CycleReport(**common(api.CycleReport, report)),
        exit_status=exit_status(run.outcome, run.cause) if run.state is RunState.ENDED else None,
        spec=spec,
        source=source,
        warnings=tuple(warnings),
        labels=run.spec.labels,
        staged=staged,
    )


def notification_record(message: Notification) -> api.Notification:
    """A message; of its receiver's URL it shows only the host."""
    return api.Notification(**inherited(Delivery, message), receiver=str(message.receiver))


def status_record(run: Run, attempt: Attempt | None) -> api.RunStatus:
    """The status of a run; `attempt` is its newest one."""
    place = attempt.allocation if attempt else run.spec.target
    summary = summary_of(run, place.cluster, place.pool)
    return api.RunStatus(**inherited(RunSummary, summary), cause=run.cause)


def attempt_record(
    attempt: Attempt,
    workers: Sequence[progress.WorkerStatus],
    notices: Sequence[progress.Notice],
    utilization: Sequence[NodeUtilization],
    *,
    directory: str | None,
    lost: progress.Loss | None,
) -> api.Attempt:
    """An attempt with its workers, the notices of its nodes, and its lost work."""
    allocation, named = attempt.allocation, attempt.allocated_at is not None
    return api.Attempt(
        **inherited(progress.AttemptProgress, attempt),
        cluster=allocation.cluster,
        nodes=allocation.nodes if named else (),
        placements=tuple(_placed(each, attempt) for each in allocation.placements) if named else (),
        slot_types=allocation.slot_types,
        granted_at=attempt.allocated_at,
        lost=lost,
        directory=directory,
        workers=tuple(workers),
        notices=tuple(notices),
        utilization=tuple(utilization),
    )


def node_record(report: NodeReport) -> api.Node:
    node = report.node
    return api.Node(
        **common(api.Node, node),
        **common(api.Node, node.capacity),
        slots_used=report.slots_used,
        own_disk=node.disks is Disks.OWN,
        runs=report.runs,
    )


def dry_run_record(dry_run: DryRun, *, warnings: Sequence[str]) -> api.DryRun:
    """The effects of a submission, without values that look like keys."""
    launch = dry_run.launch
    spec = dry_run.run.spec
    record = api.DryRun(
        **common(api.DryRun, dry_run, but=["run", "request"]),
        run=encode(spec),
        warnings=(*warnings, *(f"it would be refused: {problem}" for problem in dry_run.missing)),
        placement=None if launch is None else tuple(map(_placement_record, launch.nodes)),
        request=None if dry_run.request is None else str(dry_run.request),
        artifact_paths={} if dry_run.request is None else dict(dry_run.request.artifact_paths),
        nodes=() if launch is None else tuple(map(_node_launch_record, launch.nodes)),
    )
    return msgspec.convert(hidden_tree(msgspec.to_builtins(record), _inline_keys(spec)), ready(api.DryRun))


def shown(spec: RunSpec) -> tuple[dict[str, Any], str]:
    """A spec as JSON and its source, without values that look like keys."""
    record, keys = encode(spec), _inline_keys(spec)
    record.pop("source", None)
    if keys or may_hold_secret(msgspec.json.encode(record).decode()):
        record = hidden_tree(record, keys)
    return record, source_shown(spec)


def source_shown(spec: RunSpec) -> str:
    """The source of a spec, without values that look like keys: long lists need only the source."""
    keys = _inline_keys(spec)
    return hidden(spec.source, keys) if keys or may_hold_secret(spec.source) else spec.source


def _inline_keys(spec: RunSpec) -> list[str]:
    """The values of a spec's variables that look like keys, to be hidden everywhere in the spec."""
    found = keys_among(spec.environment.variables)
    return [key.value for key in found if len(key.value) >= LEAST_INLINE]


def _placement_record(node: NodeLaunch) -> api.Placement:
    slots = tuple(sorted({slot for worker in node.workers for slot in worker.slots}))
    late = node.address == late_address(node.rank)  # the cluster places the run, and names its nodes then
    return api.Placement(node=node.node, address="" if late else node.address, rank=node.rank, slots=slots)


def _node_launch_record(node: NodeLaunch) -> api.NodeLaunch:
    workers = (
        api.WorkerLaunch(**common(api.WorkerLaunch, worker, but=["index"]), index=worker.worker)
        for worker in node.workers
    )
    return api.NodeLaunch(node=node.node, rank=node.rank, workers=tuple(workers))


def _placed(placement: progress.WorkerPlacement, attempt: Attempt) -> api.WorkerPlacement:
    key = (placement.role, placement.replica)
    released_at = next((each.at for each in attempt.released if (each.role, each.replica) == key), None)
    return api.WorkerPlacement(**inherited(progress.WorkerPlacement, placement), released_at=released_at)


def exit_status(outcome: progress.Outcome | None, cause: progress.Cause | None) -> int:
    """The exit code of a client that followed a run to its end: the run's own.

    It is a worker's exit code unchanged, a signal as 128 + its number as in a shell, 143 for a run that a
    user stopped, and 1 for any other failure.
    """
    if outcome is progress.Outcome.COMPLETED:
        return 0
    if outcome is progress.Outcome.STOPPED:
        return 128 + _SIGNALS["SIGTERM"]
    if cause is not None and cause.exit_code:
        return cause.exit_code
    if cause is not None and cause.signal in _SIGNALS:
        return 128 + _SIGNALS[cause.signal]
    return 1


_SIGNALS = {item.name: int(item) for item in Signals}
