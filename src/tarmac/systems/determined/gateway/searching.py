"""The current length of a trial in its search, and its completed length. Called by the routes of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.systems.determined.gateway.calls import Call
from tarmac.systems.determined.gateway.tasks import Task

_COMPLETED = "completed"


def configured_length(searcher: Mapping[str, Any]) -> int | None:
    """The `max_length` of a search from before 0.38, whatever its unit."""
    found = searcher.get("max_length")
    if isinstance(found, Mapping):
        found = next((each for each in found.values() if each is not None), None)
    return found if type(found) is int and found > 0 else None


def completes_operations(task: Task) -> bool:
    """Whether the search is notified of completed operations, not of validations: one that promotes trials.

    Its lengths may be epochs, while metrics are reported by batches. If its lengths are batches as well, it
    is notified of both: the library of 0.38 completes no operations.
    """
    if task.experiment is None or not task.experiment.search.promotion:
        return False
    length = task.searcher.get("max_length")
    return not (isinstance(length, Mapping) and length.get("batches") is not None)


def length_of(task: Task) -> int | None:
    """The current length limit of the trial."""
    if task.trial is not None and task.trial.length is not None:
        return task.trial.length
    return configured_length(task.searcher)


def completed_length(call: Call, task: Task) -> int:
    """The completed length of the trial."""
    found = call.gateway.records.of(task.run.id, RunRecordKind.SEARCH)
    return max((int(each.body["length"]) for each in found), default=0)


def completion(call: Call, task: Task, length: int) -> RunRecord:
    """The record of a trial's completed length."""
    return RunRecord(
        run_id=task.run.id,
        kind=RunRecordKind.SEARCH,
        name=_COMPLETED,
        attempt=task.attempt.number,
        at=call.gateway.service.clock.now(),
        body={"length": length},
    )
