"""`det experiment list`, `describe`, `list-trials`: queries about experiments. Listed in `route_list`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from tarmac.control.experiments import TrialRow
from tarmac.model.errors import NotFound
from tarmac.model.experiment import Experiment, ExperimentHead, ExperimentQuery, ExperimentState
from tarmac.systems.determined.gateway.calls import Access, Call, get
from tarmac.systems.determined.gateway.checkpoints import warm_start
from tarmac.systems.determined.gateway.choosing import (
    EXPERIMENTS,
    TRIALS,
    asks_for_records,
    chosen,
    is_numbered,
)
from tarmac.systems.determined.gateway.model_definition import give_out
from tarmac.systems.determined.gateway.numbering import (
    check_project,
    experiment_numbers,
    experiment_of,
    trial_numbers,
)
from tarmac.systems.determined.gateway.records.experiments import (
    experiment_record,
    labels_shown,
    trial_record,
)
from tarmac.systems.determined.gateway.records.jobs import job_summary
from tarmac.systems.determined.gateway.records.written import is_descending, page
from tarmac.systems.determined.gateway.routes.reports import own_best
from tarmac.systems.determined.gateway.tasks import check_owner
from tarmac.systems.determined.gateway.tokens import TokenKind

ALL = 1_000_000
"""Maximum number of listed experiments."""


def record_of(call: Call, experiment: Experiment) -> dict[str, Any]:
    """The record of an experiment in Determined's form, with its trials."""
    [found] = _records(call, [experiment])
    return found


def _records(call: Call, experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    gateway = call.gateway
    ids = [each.id for each in experiments] + [each.parent for each in experiments if each.parent is not None]
    numbers = experiment_numbers(gateway, ids)
    rows = gateway.service.plane.experiments.rows(call.actor, experiments)
    trials = trial_numbers(gateway, [row.trial for found in rows.values() for row in found])
    return [
        experiment_record(each, number=numbers[each.id], rows=rows[each.id], numbers=numbers | trials)
        for each in experiments
    ]


def heads_of(call: Call, query: ExperimentQuery) -> list[ExperimentHead]:
    """The summaries of the experiments of a query, oldest first. Assigns numbers to those without one."""
    found = call.gateway.experiments.heads(query)[::-1]
    experiment_numbers(call.gateway, [each.id for each in found])  # in the order of their creation
    return found


def _list(call: Call) -> Any:
    """The experiments with the requested users, names and so on; oldest first, as in `det`."""
    check_project(call.whole("projectId"))
    users, name = call.texts("users"), (call.text("name") or "").lower()
    found = heads_of(call, ExperimentQuery(archived=call.flag("archived"), limit=ALL))
    numbers = experiment_numbers(call.gateway, [each.id for each in found])
    ids = [
        each.id
        for each in found
        if (not users or each.user in users)
        and (not name or name in each.name.lower())
        and is_numbered(call, numbers[each.id])
    ]
    if is_descending(call):
        ids.reverse()

    def records(shown: Sequence[str]) -> list[dict[str, Any]]:
        known = call.gateway.experiments.load(shown)
        return _records(call, [known[each] for each in shown if each in known])

    if asks_for_records(call):
        return page(call, "experiments", chosen(call, records(ids), EXPERIMENTS), list)
    return page(call, "experiments", ids, records)


def _one(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    record = record_of(call, experiment)
    going = experiment.state is ExperimentState.ACTIVE
    summary = job_summary(call, experiment.id) if going else None
    return {"experiment": record, "config": record["config"], "jobSummary": summary}


def _trials(call: Call) -> Any:
    number = call.number("experiment")
    experiment = experiment_of(call.gateway, number)
    check_owner(call, experiment.user, f"experiment {number}")
    rows = call.gateway.service.plane.experiments.trials(call.actor, experiment)
    numbers = trial_numbers(call.gateway, [row.trial for row in rows])
    beginning = warm_start(call, experiment.spec)

    def records(shown: Sequence[TrialRow]) -> list[dict[str, Any]]:
        return [
            trial_record(
                row,
                experiment,
                number=numbers[row.trial.run_id],
                experiment_number=number,
                warm_start=beginning,
            )
            for row in shown
        ]

    if is_descending(call):
        rows.reverse()
    if asks_for_records(call):
        return page(call, "trials", chosen(call, records(rows), TRIALS), list)
    return page(call, "trials", rows, records)


def _model_definition(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    archive = give_out(experiment.code_digest, call.gateway.service.code)
    return {"b64Tgz": base64.b64encode(archive).decode()}


def _best_metric(call: Call) -> Any:
    """The best metric that any trial has reported; raises NotFound without one."""
    if call.claim is not None and call.claim.kind is TokenKind.ALLOCATION:
        return own_best(call)
    experiment = experiment_of(call.gateway, call.number("experiment"))
    found = call.gateway.service.plane.experiments.best(call.actor, experiment)
    if not found:
        raise NotFound(f"no trial of experiment {call.number('experiment')} has reported its metric yet")
    return {"metric": found[0].trial.best}


def _labels(call: Call) -> Any:
    found = call.gateway.service.plane.experiments.experiments(call.actor, ExperimentQuery(limit=ALL))
    return {"labels": sorted({label for each in found for label in labels_shown(each.spec)})}


_BASE = "/api/v1/experiments"
_ONE = f"{_BASE}/{{experiment}}"

ROUTES = (
    get(_BASE, _list),
    get("/api/v1/experiment/labels", _labels),
    get(f"{_BASE}/labels", _labels),
    get(_ONE, _one, Access.TASK),
    get(f"{_ONE}/trials", _trials, Access.TASK),
    get(f"{_ONE}/model_def", _model_definition, Access.TASK),
    get(f"{_ONE}/searcher/best_searcher_validation_metric", _best_metric, Access.TASK),
)
