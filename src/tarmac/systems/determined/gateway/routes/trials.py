"""`det trial describe`, `kill`, and the contents of trial lists. Listed in `application`."""

from __future__ import annotations

from typing import Any

from tarmac.control.experiments import TrialRow
from tarmac.model.metrics import VALIDATION
from tarmac.server.storage.reported_checkpoints import DELETED
from tarmac.systems.determined.gateway.calls import Access, Call, get, post
from tarmac.systems.determined.gateway.checkpoints import checkpoints_of_run, warm_start
from tarmac.systems.determined.gateway.numbering import experiment_number, trial_of
from tarmac.systems.determined.gateway.records.checkpoints import checkpoint_step
from tarmac.systems.determined.gateway.records.experiments import trial_record
from tarmac.systems.determined.gateway.records.metrics import step_reports, summary_metrics
from tarmac.systems.determined.gateway.records.written import is_descending, page
from tarmac.systems.determined.gateway.routes.tasks import own_trial
from tarmac.systems.determined.gateway.tasks import run_of_trial
from tarmac.systems.determined.gateway.tokens import TokenKind


def trial_answer(call: Call) -> dict[str, Any]:
    """The trial of the path, with a summary of its metrics and of its checkpoints."""
    number = call.number("trial")
    trial, run = trial_of(call.gateway, number)
    experiment = call.gateway.experiments.experiment(trial.experiment)
    assert experiment is not None, "a trial has one"
    record = trial_record(
        TrialRow(trial=trial, run=run),
        experiment,
        number=number,
        experiment_number=experiment_number(call.gateway, experiment.id),
        warm_start=warm_start(call, experiment.spec),
    )
    plane = call.gateway.service.plane
    summaries = plane.control.store.metrics.summaries([run.id])
    checkpoints = [each for each in checkpoints_of_run(call, run) if each.state != DELETED]
    sizes = (int(size) for each in checkpoints for size in each.resources.values())
    now = call.gateway.service.clock.now()
    ran_s = sum(
        (each.ended_at or now) - each.started_at
        for each in plane.attempts(call.actor, run.id)
        if each.started_at is not None
    )
    own = {
        "checkpointCount": len(checkpoints),
        "totalCheckpointSize": str(sum(sizes)),
        "wallClockTime": ran_s,
    }
    return record | own | {"summaryMetrics": summary_metrics(summaries)}


def _one(call: Call) -> Any:
    if call.claim is not None and call.claim.kind is TokenKind.ALLOCATION:
        return {"trial": own_trial(call, run_of_trial(call, call.number("trial")))}
    return {"trial": trial_answer(call)}


def _kill(call: Call) -> Any:
    _, run = trial_of(call.gateway, call.number("trial"))
    call.gateway.service.plane.stop(call.actor, run.id, at_once=True)
    return {}


def _workloads(call: Call) -> Any:
    """Reports of metrics and checkpoints, by step."""
    _, run = trial_of(call.gateway, call.number("trial"))
    chosen = call.text("filter") or ""
    found: list[tuple[int, str, dict[str, Any]]] = [
        (each.step, "validation" if each.group == VALIDATION else "training", each.record)
        for each in step_reports(call.gateway.service.plane, call.actor, run)
    ]
    found += [(each.steps, "checkpoint", checkpoint_step(each)) for each in checkpoints_of_run(call, run)]
    if any(kind in chosen for kind in ("VALIDATION", "CHECKPOINT")):  # FILTER_OPTION_CHECKPOINT_OR_VALIDATION
        found = [each for each in found if each[1].upper() in chosen]
    found.sort(key=lambda each: each[0])
    if is_descending(call):
        found.reverse()
    return page(call, "workloads", [{kind: record} for _, kind, record in found], list)


ROUTES = (
    get("/api/v1/trials/{trial}", _one, Access.TASK),
    post("/api/v1/trials/{trial}/kill", _kill),
    get("/api/v1/trials/{trial}/workloads", _workloads),
)
