"""Stores reports of the library in tarmac's record of metrics, and the lengths of trials in their search.

Reports count as those of an additional node of the attempt, beside the files of its workers. The library
repeats a report if it got no answer: such a report counts once. Called by `routes.tasks`.
"""

import json
from collections.abc import Mapping
from typing import Any

from tarmac.control.state.metric_intake import events_of, reports_of
from tarmac.model.errors import InvalidInput, NotFound, Unavailable
from tarmac.model.metrics import MetricReport, ReportBatch
from tarmac.model.ports import Store
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.systems.determined.gateway.calls import Call, inner
from tarmac.systems.determined.gateway.tasks import Task
from tarmac.systems.determined.search import length_of as configured_length

NODE = "determined"
"""The source of these reports, in the place of a node."""

TRIES = 50
_NOT_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


def report_of(
    call: Call,
    *,
    group: str,
    step: int | None,
    metrics: Mapping[str, Any],
    progress: float | None = None,
    at: float | None = None,
) -> MetricReport:
    """A report in the form of a worker's, at `at` or now; raises InvalidInput for an invalid one."""
    written = {
        "at": call.gateway.service.clock.now() if at is None else at,
        "rank": 0,
        "step": step,
        "group": group,
        "progress": progress,
        "metrics": {
            name: _NOT_FINITE.get(value, value) if isinstance(value, str) else value
            for name, value in metrics.items()
        },
    }
    found = reports_of(json.dumps(written).encode())
    if not found:
        raise InvalidInput("metrics: a group, a whole number of steps and metrics by name are expected")
    return found[0]


def take(
    call: Call,
    task: Task,
    reports: tuple[MetricReport, ...],
    *,
    news: MetricReport | None,
    records: tuple[RunRecord, ...] = (),
) -> None:
    """Store reports and records, and notify the trial's search of `news`, in one transaction.

    A repeated report counts once.

    Raises NotFound if the run is gone, Unavailable if others report all the time.
    """
    control = call.plane.control
    subscribers = control.metric_subscribers
    events = tuple(events_of(task.run, task.attempt, (news,) if news is not None else (), subscribers))
    place = (task.run.id, task.attempt.number, NODE)
    for _ in range(TRIES):
        begin = control.store.metrics.positions([task.run.id]).get(place, 0)
        if reports and all(_is_repeated(control.store, task, each) for each in reports):
            return
        batch = ReportBatch(
            run_id=task.run.id,
            attempt=task.attempt.number,
            node=NODE,
            begin=begin,
            end=begin + 1,
            reports=reports,
            events=events,
            records=records,
        )
        if control.store.metrics.take([batch]) == [True]:
            break
        if control.store.run(task.run.id) is None:
            raise NotFound("the run of this task is not there any more")
    else:
        raise Unavailable("metrics of this trial are reported too quickly", hint="try again")
    for event in events:
        subscribers[event.subscriber].notify()


def _is_repeated(store: Store, task: Task, report: MetricReport) -> bool:
    """Whether a report repeats the last one of its group: compared by its step, else by its time."""
    if not report.values:
        return False
    last = {
        each.key.name: each
        for each in store.metrics.summaries([task.run.id])
        if each.key.group == report.group and each.key.rank == report.rank
    }
    return all(
        name in last
        and last[name].last.step == report.step
        and str(last[name].last.value) == str(value)
        and (report.step is not None or last[name].last_at == report.at)
        for name, value in report.values.items()
    )


def completes_operations(task: Task) -> bool:
    """Whether the search is notified of completed operations, not of validations: one that promotes trials.

    Its lengths may be epochs, while metrics are reported by batches. If its lengths are batches as well, it
    is notified of both: the library of 0.38 completes no operations.
    """
    if task.experiment is None or not task.experiment.search.promotion:
        return False
    return inner(task.searcher, "max_length", "batches") is None


def length_of(task: Task) -> int | None:
    """The current length limit of the trial."""
    if task.trial is not None and task.trial.length is not None:
        return task.trial.length
    return configured_length(task.searcher)


def completed_length(call: Call, task: Task) -> int:
    """The completed length of the trial."""
    found = call.gateway.records.of(task.run.id, RunRecordKind.SEARCH)
    return max((int(each.body["length"]) for each in found), default=0)
