"""`det experiment list`, `describe`, `list-trials`, `det trial describe`. Listed in `application`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from tarmac.control.experiments import TrialRow
from tarmac.model.errors import NotFound
from tarmac.model.experiment import Experiment, ExperimentHead, ExperimentQuery
from tarmac.model.lifecycle import ExperimentState
from tarmac.model.metrics import VALIDATION
from tarmac.model.run import Run
from tarmac.server.storage.reported_checkpoints import DELETED
from tarmac.systems.determined.gateway import checkpoints, records
from tarmac.systems.determined.gateway.calls import Access, Call, Route, finite, inner, time_of, whole
from tarmac.systems.determined.gateway.changing import camel
from tarmac.systems.determined.gateway.gateway import ALL, task_name
from tarmac.systems.determined.gateway.model_definition import give_out
from tarmac.systems.determined.gateway.routes import projects
from tarmac.systems.determined.gateway.routes.checkpoints import checkpoint_step
from tarmac.systems.determined.gateway.routes.jobs import job_summary
from tarmac.systems.determined.gateway.tasks import task_of

Record = Mapping[str, Any]
Keys = Mapping[str, Callable[[Record], Any]]

_PREFIX = "SORT_BY_"
_AS_LISTED = frozenset({"", "UNSPECIFIED", "ID"})
_GOES_ON = frozenset({"STATE_QUEUED", "STATE_PULLING", "STATE_STARTING", "STATE_RUNNING"})


def _validated(name: str) -> Callable[[Record], Any]:
    """A validation metric in a field of a trial."""

    def value(record: Record) -> Any:
        metrics = inner(record[name], "metrics", "avgMetrics") or {}
        return next(iter(metrics.values()), None)

    return value


def _duration(record: Record) -> float | None:
    if record["endTime"] is None:
        return None
    begin, end = (datetime.fromisoformat(record[name]) for name in ("startTime", "endTime"))
    return (end - begin).total_seconds()


def _of_fields(words: str) -> Keys:
    """Keys that are named after a field of the record."""
    return {word: itemgetter(camel(word.lower())) for word in words.split()}


EXPERIMENTS: Keys = {
    **_of_fields("DESCRIPTION START_TIME END_TIME STATE NUM_TRIALS PROGRESS NAME FORKED_FROM RESOURCE_POOL"),
    "USER": itemgetter("username"),
    "SEARCHER_METRIC_VAL": itemgetter("bestTrialSearcherMetric"),
}
TRIALS: Keys = {
    **_of_fields("START_TIME END_TIME STATE RESTARTS"),
    "BEST_VALIDATION_METRIC": _validated("bestValidation"),
    "LATEST_VALIDATION_METRIC": _validated("latestValidation"),
    "BATCHES_PROCESSED": itemgetter("totalBatchesProcessed"),
    "DURATION": _duration,
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
    return sorted(known, key=key, reverse=call.descends) + without


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


def experiment_record(call: Call, experiment: Experiment) -> dict[str, Any]:
    """The record of an experiment in Determined's form, with its trials."""
    [found] = _records(call, [experiment])
    return found


def _records(call: Call, experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    gateway = call.gateway
    ids = [each.id for each in experiments] + [each.parent for each in experiments if each.parent is not None]
    numbers = gateway.experiment_numbers(ids)
    rows = gateway.plane.experiments.rows(call.actor, experiments)
    trials = gateway.trial_numbers([row.trial.run_id for found in rows.values() for row in found])
    return [
        records.experiment(each, number=numbers[each.id], rows=rows[each.id], numbers={**numbers, **trials})
        for each in experiments
    ]


def heads_of(call: Call, query: ExperimentQuery) -> list[ExperimentHead]:
    """The summaries of the experiments of a query, oldest first. Assigns numbers to those without one."""
    found = call.gateway.experiments.heads(query)[::-1]
    call.gateway.experiment_numbers([each.id for each in found])  # in the order of their creation
    return found


def _list(call: Call) -> Any:
    """The experiments with the requested users, names and so on; oldest first, as in `det`."""
    project = projects.named(call, call.whole("projectId"))
    users, name = call.texts("users"), (call.text("name") or "").lower()
    query = ExperimentQuery(archived=call.flag("archived"), project=project, sight=call.actor.sees, limit=ALL)
    found = heads_of(call, query)
    numbers = call.gateway.experiment_numbers([each.id for each in found])
    ids = [
        each.id
        for each in found
        if (not users or each.user in users)
        and (not name or name in each.name.lower())
        and is_numbered(call, numbers[each.id])
    ]
    if call.descends:
        ids.reverse()

    def shown(some: Sequence[str]) -> list[dict[str, Any]]:
        known = call.gateway.experiments.load(some)
        return _records(call, [known[each] for each in some if each in known])

    if asks_for_records(call):
        return call.page("experiments", chosen(call, shown(ids), EXPERIMENTS))
    return call.page("experiments", ids, shown)


def _one(call: Call) -> Any:
    experiment = call.experiment()
    record = experiment_record(call, experiment)
    summary = job_summary(call, experiment.id) if experiment.state is ExperimentState.ACTIVE else None
    return {"experiment": record, "config": record["config"], "jobSummary": summary}


def _trials(call: Call) -> Any:
    experiment = call.experiment()
    call.check_owner(experiment.user, f"experiment {call.number('experiment')}")
    rows = call.plane.experiments.trials(call.actor, experiment)
    numbers = call.gateway.trial_numbers([row.trial.run_id for row in rows])
    beginning = checkpoints.warm_start(call, experiment.spec)

    def shown(some: Sequence[TrialRow]) -> list[dict[str, Any]]:
        number = call.number("experiment")
        return [
            records.trial(row, experiment, (number, numbers[row.trial.run_id]), warm_start=beginning)
            for row in some
        ]

    if call.descends:
        rows.reverse()
    if asks_for_records(call):
        return call.page("trials", chosen(call, shown(rows), TRIALS))
    return call.page("trials", rows, shown)


def _model_definition(call: Call) -> Any:
    return {"b64Tgz": give_out(call.experiment().code_digest, call.gateway.service.code)}


def _best_metric(call: Call) -> Any:
    """The best metric that any trial has reported; raises NotFound without one."""
    if call.attempt_id is not None:
        return _own_best(call)
    found = call.plane.experiments.best(call.actor, call.experiment())
    if not found:
        raise NotFound(f"no trial of experiment {call.number('experiment')} has reported its metric yet")
    return {"metric": found[0].trial.best}


def _own_best(call: Call) -> Any:
    """The best validation of the search metric, over all trials of the calling task's experiment.

    Raises NotFound before the first validation.
    """
    task, store = task_of(call), call.store
    searcher = task.searcher
    trials = store.experiments.trials(task.experiment.id) if task.experiment is not None else []
    smaller = searcher.get("smaller_is_better") is not False
    found = [
        extreme.value
        for each in store.metrics.summaries([trial.run_id for trial in trials] or [task.run.id])
        if each.key.group == VALIDATION and each.key.name == searcher.get("metric")
        if (extreme := each.low if smaller else each.high) is not None
    ]
    if not found:
        raise NotFound("no validation was reported yet")
    return {"metric": min(found) if smaller else max(found)}


def _labels(call: Call) -> Any:
    found = call.plane.experiments.experiments(call.actor, ExperimentQuery(limit=ALL))
    return {"labels": sorted({label for each in found for label in records.labels_shown(each.spec)})}


_BASE = "/api/v1/experiments"
_ONE = f"{_BASE}/{{experiment}}"


def _one_trial(call: Call) -> Any:
    """The trial of the path, with a summary of its metrics and of its checkpoints."""
    number = call.number("trial")
    if call.attempt_id is not None:
        return {"trial": _own_trial(call, call.run_of_trial(number))}
    trial, run = call.trial()
    experiment = call.gateway.experiments.experiment(trial.experiment)
    assert experiment is not None, "a trial has one"
    record = records.trial(
        TrialRow(trial=trial, run=run),
        experiment,
        (call.gateway.experiment_number(experiment.id), number),
        warm_start=checkpoints.warm_start(call, experiment.spec),
    )
    kept = [each for each in checkpoints.of_run(call, run) if each.state != DELETED]
    now = call.gateway.service.clock.now()
    attempts = call.plane.attempts(call.actor, run.id)
    record["checkpointCount"] = len(kept)
    record["totalCheckpointSize"] = str(sum(int(size) for each in kept for size in each.resources.values()))
    record["wallClockTime"] = sum(
        (each.ended_at or now) - each.started_at for each in attempts if each.started_at is not None
    )
    record["summaryMetrics"] = records.summary_metrics(call.store.metrics.summaries([run.id]))
    return {"trial": record}


def _own_trial(call: Call, run: Run) -> dict[str, Any]:
    """A trial in the form for its own code: with the last validation."""
    experiment = call.gateway.experiment_of(run)
    summaries = call.store.metrics.summaries([run.id])
    validated = [each for each in summaries if each.key.group == VALIDATION]
    last = max((each.last.step for each in validated if each.last.step is not None), default=None)
    metrics = {each.key.name: finite(each.last.value) for each in validated}
    return {
        "id": call.gateway.trial_number(run.id),
        "experimentId": experiment,
        "state": f"STATE_{records.run_state(run)}",
        "startTime": time_of(run.created_at),
        "endTime": time_of(run.ended_at),
        "hparams": dict(run.spec.parameters or {}),
        "restarts": records.restarts_of(run),
        "taskId": task_name(experiment, run.id),
        "totalBatchesProcessed": last or 0,
        "summaryMetrics": records.summary_metrics(summaries),
        "latestValidation": {"totalBatches": last, "metrics": records.metrics_record(metrics)}
        if last is not None
        else None,
    }


def _kill(call: Call) -> None:
    _, run = call.trial()
    call.plane.stop(call.actor, run.id, at_once=True)


def _workloads(call: Call) -> Any:
    """Reports of metrics and checkpoints, by step."""
    _, run = call.trial()
    chosen = call.text("filter") or ""
    found: list[tuple[int, str, dict[str, Any]]] = [
        (each.step, "validation" if each.group == VALIDATION else "training", each.record)
        for each in records.step_reports(call.plane, call.actor, run)
    ]
    found += [(each.steps, "checkpoint", checkpoint_step(each)) for each in checkpoints.of_run(call, run)]
    if any(kind in chosen for kind in ("VALIDATION", "CHECKPOINT")):  # FILTER_OPTION_CHECKPOINT_OR_VALIDATION
        found = [each for each in found if each[1].upper() in chosen]
    found.sort(key=lambda each: each[0])
    if call.descends:
        found.reverse()
    return call.page("workloads", [{kind: record} for _, kind, record in found])


ROUTES = (
    Route("GET", _BASE, _list),
    Route("GET", "/api/v1/experiment/labels", _labels),
    Route("GET", f"{_BASE}/labels", _labels),
    Route("GET", _ONE, _one, Access.TASK),
    Route("GET", f"{_ONE}/trials", _trials, Access.TASK),
    Route("GET", f"{_ONE}/model_def", _model_definition, Access.TASK),
    Route("GET", f"{_ONE}/searcher/best_searcher_validation_metric", _best_metric, Access.TASK),
    Route("GET", "/api/v1/trials/{trial}", _one_trial, Access.TASK),
    Route("POST", "/api/v1/trials/{trial}/kill", _kill),
    Route("GET", "/api/v1/trials/{trial}/workloads", _workloads),
)
