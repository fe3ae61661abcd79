"""`det experiment ...`: creating, listing, describing and commanding experiments. Listed in `route_list`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tarmac.control.experiments import TrialRow
from tarmac.model.actor import Actor
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.experiment import Experiment, ExperimentQuery, ExperimentState
from tarmac.search import PreviewLine
from tarmac.server.determined.calls import Access, Call, delete, get, patch, post
from tarmac.server.determined.creating import preview_of, wish_of
from tarmac.server.determined.experiment_records import experiment_record, trial_record
from tarmac.server.determined.job_records import job_summary, jobs_of
from tarmac.server.determined.jobs_api import place_changes
from tarmac.server.determined.model_definition import give_out
from tarmac.server.determined.numbering import (
    experiment_numbers,
    experiment_of,
    trial_numbers,
)
from tarmac.server.determined.reports_api import own_best
from tarmac.server.determined.tokens import TokenKind
from tarmac.server.determined.written import is_descending, page

MOST_LISTED = 1_000
Command = Callable[[Actor, str], Experiment]


# --- creating


def _create(call: Call) -> Any:
    if call.field("validateOnly", False):
        checked = wish_of(call, keeps=False).submission
        call.gateway.service.plane.experiments.preview(checked)
        return {"experiment": _draft_record(checked.spec.name), "config": {}, "warnings": []}
    wish = wish_of(call, keeps=True)
    parent = wish.parent.id if wish.parent is not None else None
    created = call.gateway.service.plane.create_experiment(wish.submission, parent=parent)
    record = record_of(call, created)
    return {"experiment": record, "config": record["config"], "warnings": []}


def _draft_record(name: str) -> dict[str, Any]:
    """What stands in an answer for an experiment that is not kept."""
    empty: dict[str, Any] = dict.fromkeys(("startTime", "jobId", "searcherType", "username"), "")
    numbers = dict.fromkeys(("id", "numTrials", "projectId", "projectOwnerId"), 0)
    rest = {"archived": False, "config": {}, "originalConfig": "", "state": "STATE_PAUSED", "name": name}
    return empty | numbers | rest


def _continue(call: Call) -> Any:
    """Go on with one that has ended, with the configuration that it has."""
    number, override = call.field("id"), str(call.field("overrideConfig", "")).strip()
    if override not in ("", "{}", "null"):
        raise InvalidInput(
            "an experiment is continued with the configuration that it has",
            hint="det experiment create begins another with a changed one",
        )
    experiment = experiment_of(call.gateway, int(number or 0))
    plane = call.gateway.service.plane
    return {"experiment": record_of(call, plane.experiments.go_on(call.actor, experiment.id))}


def _preview(call: Call) -> Any:
    """What a search will come to: in the form of 0.38, and of those before."""
    config = call.field("config", {})
    lines = _previewed(call, config)
    values = config if isinstance(config, dict) else {}
    unit = _unit(values.get("searcher"))
    trials = [
        {"count": line.trials, "unit": {"name": unit, "value": line.length, "maxLength": line.length is None}}
        for line in lines
    ]
    simulated = [
        {
            "occurrences": line.trials,
            "operations": [{"type": "RUNNABLE_OPERATION_TYPE_TRAIN", "length": str(line.length or 0)}],
        }
        for line in lines
    ]
    return {
        "summary": {"config": values, "trials": trials},
        "simulation": {"config": values, "seed": 0, "trials": simulated},
    }


def _unit(searcher: Any) -> str:
    """In what the lengths of a search are counted."""
    found = searcher if isinstance(searcher, Mapping) else {}
    length = found.get("max_length")
    if isinstance(length, Mapping) and length:
        return str(next(iter(length)))
    return str(found.get("time_metric") or "batches")


def _old_preview(call: Call) -> Any:
    """The same for 0.23, which sends the configuration alone."""
    lines = _previewed(call, call.body)
    return {"results": {f"{line.length}" if line.length else "": line.trials for line in lines}}


def _previewed(call: Call, config: Any) -> Sequence[PreviewLine]:
    text = config if isinstance(config, str) else json.dumps(config)
    return call.gateway.service.plane.experiments.preview(preview_of(call, text))


# --- questions


def record_of(call: Call, experiment: Experiment) -> dict[str, Any]:
    """An experiment as Determined has it, with its trials."""
    [found] = _records(call, [experiment])
    return found


def _records(call: Call, experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    gateway = call.gateway
    ids = [each.id for each in experiments] + [each.parent for each in experiments if each.parent is not None]
    numbers = experiment_numbers(gateway, ids)
    found = []
    for experiment in experiments:
        rows = gateway.service.plane.experiments.trials(call.actor, experiment)
        known = trial_numbers(gateway, [row.trial for row in rows])
        parent = {experiment.parent: numbers[experiment.parent]} if experiment.parent in numbers else {}
        found.append(
            experiment_record(
                experiment, number=numbers[experiment.id], rows=rows, numbers={**known, **parent}
            )
        )
    return found


def _list(call: Call) -> Any:
    """Oldest first, as `det` lists them; those of the users, states and names that are asked for."""
    query = ExperimentQuery(archived=call.flag("archived"), limit=MOST_LISTED)
    found = list(reversed(call.gateway.service.plane.experiments.experiments(call.actor, query)))
    experiment_numbers(call.gateway, [each.id for each in found])  # in the order in which they were made
    users, states, name = call.texts("users"), call.texts("states"), call.text("name")
    found = [
        each
        for each in found
        if (not users or each.user in users) and (name is None or name.lower() in each.name.lower())
    ]
    if is_descending(call):
        found.reverse()
    if states:
        records = [each for each in _records(call, found) if each["state"] in states]
        return page(call, "experiments", records, list)
    return page(call, "experiments", found, lambda shown: _records(call, shown))


def _one(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    record = record_of(call, experiment)
    going = experiment.state is ExperimentState.ACTIVE
    summary = job_summary(call, experiment.id) if going else None
    return {"experiment": record, "config": record["config"], "jobSummary": summary}


def _trials(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    rows = call.gateway.service.plane.experiments.trials(call.actor, experiment)
    numbers = trial_numbers(call.gateway, [row.trial for row in rows])
    states = call.texts("states")

    def records(shown: Sequence[TrialRow]) -> list[dict[str, Any]]:
        number = call.number("experiment")
        return [
            trial_record(row, experiment, number=numbers[row.trial.run_id], experiment_number=number)
            for row in shown
        ]

    if is_descending(call):
        rows.reverse()
    if states:
        return page(call, "trials", [each for each in records(rows) if each["state"] in states], list)
    return page(call, "trials", rows, records)


def _model_definition(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    return {"b64Tgz": packed(call, experiment.code_digest)}


def packed(call: Call, digest: str | None) -> str:
    """A snapshot of code as an archive, in base64."""
    return base64.b64encode(give_out(digest, call.gateway.service.code)).decode()


def _best_metric(call: Call) -> Any:
    """The best metric that any trial has reported; NotFound where none has."""
    if call.claim is not None and call.claim.kind is TokenKind.ALLOCATION:
        return own_best(call)
    experiment = experiment_of(call.gateway, call.number("experiment"))
    found = call.gateway.service.plane.experiments.best(call.actor, experiment)
    if not found:
        raise NotFound(f"no trial of experiment {call.number('experiment')} has reported its metric yet")
    return {"metric": found[0].trial.best}


def _labels(call: Call) -> Any:
    query = ExperimentQuery(limit=MOST_LISTED)
    found = call.gateway.service.plane.experiments.experiments(call.actor, query)
    return {"labels": sorted({label for each in found for label in each.spec.labels})}


# --- commands


def _command(choose: Callable[[Call], Command]) -> Callable[[Call], Any]:
    """A route that gives a command to an experiment."""

    def command(call: Call) -> Any:
        experiment = experiment_of(call.gateway, call.number("experiment"))
        choose(call)(call.actor, experiment.id)
        return {}

    return command


def _archive(archived: bool) -> Callable[[Call], Command]:
    def choose(call: Call) -> Command:
        experiments = call.gateway.service.plane.experiments
        return lambda actor, reference: experiments.set_archived(actor, reference, archived)

    return choose


def _change(call: Call) -> Any:
    """Change the place of its trials in the queue; what it is called stays."""
    experiment = experiment_of(call.gateway, call.number("experiment"))
    record = record_of(call, experiment)
    for name in ("name", "description", "labels", "notes"):
        if (value := call.field(name)) is not None and (value or None) != (record[name] or None):
            raise Refused(f"the {name} of an experiment is what its configuration says, and stays so")
    resources = call.field("resources", {})
    if not isinstance(resources, Mapping):
        raise InvalidInput("resources: a mapping is expected")
    if resources.get("maxSlots") is not None:
        raise Refused("max_slots of an experiment is what its configuration says, and stays so")
    jobs = [job for job in jobs_of(call) if job.id == experiment.id]
    changes = [change for job in jobs for change in place_changes(job, resources)]
    if changes:
        call.gateway.service.plane.reorder(call.actor, changes)
    return {"experiment": record_of(call, experiment)}


def _remove(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    service = call.gateway.service
    _, trials = service.plane.experiments.remove(call.actor, experiment.id)
    for trial in trials:
        service.remover.remove_if_there(call.actor, trial.run_id)
    return {}


_BASE = "/api/v1/experiments"
_ONE = f"{_BASE}/{{experiment}}"

ROUTES = (
    post(_BASE, _create),
    get(_BASE, _list),
    post(f"{_BASE}/continue", _continue),
    get("/api/v1/experiment/labels", _labels),
    get(f"{_BASE}/labels", _labels),
    get(_ONE, _one, Access.TASK),
    patch(_ONE, _change),
    delete(_ONE, _remove),
    get(f"{_ONE}/trials", _trials),
    get(f"{_ONE}/model_def", _model_definition, Access.TASK),
    get(f"{_ONE}/searcher/best_searcher_validation_metric", _best_metric, Access.TASK),
    post(f"{_ONE}/pause", _command(lambda call: call.gateway.service.plane.experiments.pause)),
    post(f"{_ONE}/activate", _command(lambda call: call.gateway.service.plane.experiments.activate)),
    post(f"{_ONE}/cancel", _command(lambda call: call.gateway.service.plane.experiments.stop)),
    post(f"{_ONE}/kill", _command(lambda call: call.gateway.service.plane.experiments.stop)),
    post(f"{_ONE}/archive", _command(_archive(True))),
    post(f"{_ONE}/unarchive", _command(_archive(False))),
    post("/api/v1/preview-hp-search", _preview),
    post("/searcher/preview", _old_preview),
)
