"""`det experiment list`, `describe`, `list-trials`, `det trial describe`. Listed in `application`."""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from tarmac.control.experiments import TrialRow
from tarmac.model.errors import NotFound
from tarmac.model.experiment import Experiment, ExperimentHead, ExperimentQuery, ExperimentState
from tarmac.model.metrics import VALIDATION
from tarmac.server.storage.reported_checkpoints import DELETED
from tarmac.systems.determined.gateway.calls import Access, Call, get, is_descending, page, post, whole
from tarmac.systems.determined.gateway.checkpoints import checkpoints_of_run, warm_start
from tarmac.systems.determined.gateway.gateway import (
    check_project,
    experiment_number,
    experiment_numbers,
    experiment_of,
    trial_numbers,
    trial_of,
)
from tarmac.systems.determined.gateway.model_definition import give_out
from tarmac.systems.determined.gateway.records import (
    experiment_record,
    labels_shown,
    step_reports,
    summary_metrics,
    trial_record,
)
from tarmac.systems.determined.gateway.routes.checkpoints import checkpoint_step
from tarmac.systems.determined.gateway.routes.jobs import job_summary
from tarmac.systems.determined.gateway.routes.reports import own_best
from tarmac.systems.determined.gateway.routes.tasks import own_trial
from tarmac.systems.determined.gateway.tasks import check_owner, run_of_trial
from tarmac.systems.determined.gateway.tokens import TokenKind

Record = Mapping[str, Any]
Keys = Mapping[str, Callable[[Record], Any]]

_PREFIX = "SORT_BY_"
_AS_LISTED = frozenset({"", "UNSPECIFIED", "ID"})
_GOES_ON = frozenset({"STATE_QUEUED", "STATE_PULLING", "STATE_STARTING", "STATE_RUNNING"})


def _field(name: str) -> Callable[[Record], Any]:
    return lambda record: record[name]


def _validated(name: str) -> Callable[[Record], Any]:
    """A validation metric in a field of a trial."""

    def value(record: Record) -> Any:
        found = record[name]
        return next(iter(found["metrics"]["avgMetrics"].values()), None) if found is not None else None

    return value


def _duration(record: Record) -> float | None:
    if record["endTime"] is None:
        return None
    begin, end = (datetime.fromisoformat(record[name]) for name in ("startTime", "endTime"))
    return (end - begin).total_seconds()


EXPERIMENTS: Keys = {
    "DESCRIPTION": _field("description"),
    "START_TIME": _field("startTime"),
    "END_TIME": _field("endTime"),
    "STATE": _field("state"),
    "NUM_TRIALS": _field("numTrials"),
    "PROGRESS": _field("progress"),
    "USER": _field("username"),
    "NAME": _field("name"),
    "FORKED_FROM": _field("forkedFrom"),
    "RESOURCE_POOL": _field("resourcePool"),
    "SEARCHER_METRIC_VAL": _field("bestTrialSearcherMetric"),
}
TRIALS: Keys = {
    "START_TIME": _field("startTime"),
    "END_TIME": _field("endTime"),
    "STATE": _field("state"),
    "BEST_VALIDATION_METRIC": _validated("bestValidation"),
    "LATEST_VALIDATION_METRIC": _validated("latestValidation"),
    "BATCHES_PROCESSED": _field("totalBatchesProcessed"),
    "DURATION": _duration,
    "RESTARTS": _field("restarts"),
}


def asks_for_records(call: Call) -> bool:
    """Whether the selection requires complete records."""
    by = (call.text("sortBy") or "").removeprefix(_PREFIX)
    return by not in _AS_LISTED or any(call.texts(name) for name in ("states", "labels", "description"))


def chosen(call: Call, records: Sequence[Record], keys: Keys) -> list[Record]:
    """The records with the requested states, labels and description, in the requested order.

    `records` are in the order of their numbers, or in reverse if the request asks for that.
    """
    states, labels = set(call.texts("states")), set(call.texts("labels"))
    if "STATE_ACTIVE" in states:
        states |= _GOES_ON
    text = (call.text("description") or "").lower()
    found = [
        each
        for each in records
        if (not states or each["state"] in states)
        and (not labels or labels & set(each["labels"]))
        and (not text or text in (each["description"] or "").lower())
    ]
    key = keys.get((call.text("sortBy") or "").removeprefix(_PREFIX))
    if key is None:
        return found
    known = [each for each in found if key(each) is not None]
    without = [each for each in found if key(each) is None]
    return sorted(known, key=key, reverse=is_descending(call)) + without


def is_numbered(call: Call, number: int) -> bool:
    """Whether the request selects an experiment by its number."""
    name = "experimentIdFilter"
    included = {whole(name, text) for text in call.texts(f"{name}.incl")}
    excluded = {whole(name, text) for text in call.texts(f"{name}.notIn")}
    return (
        (not included or number in included)
        and number not in excluded
        and all(
            holds(number, call.whole(f"{name}.{bound}"))
            for bound, holds in _BOUNDS.items()
            if call.text(f"{name}.{bound}") is not None
        )
    )


_BOUNDS: Mapping[str, Callable[[int, int], bool]] = {
    "gt": int.__gt__,
    "gte": int.__ge__,
    "lt": int.__lt__,
    "lte": int.__le__,
}


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


def _one_trial(call: Call) -> Any:
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
    get(_BASE, _list),
    get("/api/v1/experiment/labels", _labels),
    get(f"{_BASE}/labels", _labels),
    get(_ONE, _one, Access.TASK),
    get(f"{_ONE}/trials", _trials, Access.TASK),
    get(f"{_ONE}/model_def", _model_definition, Access.TASK),
    get(f"{_ONE}/searcher/best_searcher_validation_metric", _best_metric, Access.TASK),
    get("/api/v1/trials/{trial}", _one_trial, Access.TASK),
    post("/api/v1/trials/{trial}/kill", _kill),
    get("/api/v1/trials/{trial}/workloads", _workloads),
)
