"""`det trial describe`, `kill`, and what lists of trials are made of. Listed in `route_list`."""

from __future__ import annotations

from typing import Any

from tarmac.control.experiments import TrialRow
from tarmac.server.determined.calls import Access, Call, get, post
from tarmac.server.determined.experiment_records import trial_record
from tarmac.server.determined.metric_records import summary_metrics, workloads
from tarmac.server.determined.numbering import experiment_number, trial_of
from tarmac.server.determined.tasks import task_of
from tarmac.server.determined.tasks_api import own_trial
from tarmac.server.determined.tokens import TokenKind
from tarmac.server.determined.written import is_descending, page

MOST_POINTS = 2_000


def trial_answer(call: Call) -> dict[str, Any]:
    """The trial of the path, with a summary of its metrics."""
    number = call.number("trial")
    trial, run = trial_of(call.gateway, number)
    experiment = call.gateway.experiments.experiment(trial.experiment)
    assert experiment is not None, "a trial has one"
    record = trial_record(
        TrialRow(trial=trial, run=run),
        experiment,
        number=number,
        experiment_number=experiment_number(call.gateway, experiment.id),
    )
    summaries = call.gateway.service.plane.control.store.metrics.summaries([run.id])
    return record | {"summaryMetrics": summary_metrics(summaries)}


def _one(call: Call) -> Any:
    if call.claim is not None and call.claim.kind is TokenKind.ALLOCATION:
        return {"trial": own_trial(call, task_of(call))}
    return {"trial": trial_answer(call)}


def _kill(call: Call) -> Any:
    _, run = trial_of(call.gateway, call.number("trial"))
    call.gateway.service.plane.stop(call.actor, run.id)
    return {}


def _workloads(call: Call) -> Any:
    """Reports of metrics, by step; of more than MOST_POINTS of a metric an even choice."""
    _, run = trial_of(call.gateway, call.number("trial"))
    found = workloads(call.gateway.service.plane, call.actor, run, most=MOST_POINTS)
    if is_descending(call):
        found.reverse()
    return page(call, "workloads", found, list)


ROUTES = (
    get("/api/v1/trials/{trial}", _one, Access.TASK),
    post("/api/v1/trials/{trial}/kill", _kill),
    get("/api/v1/trials/{trial}/workloads", _workloads),
)
