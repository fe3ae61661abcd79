"""Streams complete metric reports of trials: `Trial.iter_metrics` of the client. Listed in `application`.

Includes trials that reported the use of a checkpoint (`report_task_using_checkpoint`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from starlette.responses import StreamingResponse

from tarmac.model.errors import InvalidInput
from tarmac.model.metrics import TRAINING, VALIDATION
from tarmac.model.run import Run
from tarmac.model.run_records import RunRecordKind
from tarmac.systems.determined.gateway.calls import Access, Call, get, whole
from tarmac.systems.determined.gateway.numbering import trial_number
from tarmac.systems.determined.gateway.records.metrics import report_record, whole_reports
from tarmac.systems.determined.gateway.routes.reports import source_name
from tarmac.systems.determined.gateway.tasks import run_of_trial

_AT_ONCE = 1000
"""Number of reports in one line of a stream."""


def _stream(call: Call, group: str | None = None) -> StreamingResponse:
    """The reports of a group, or else of the requested group, trial by trial."""
    numbers = [whole("trialIds", text) for text in call.texts("trialIds")]
    if not numbers:
        raise InvalidInput("trialIds: the number of a trial is expected")
    runs = [run_of_trial(call, number) for number in numbers]
    lines = _lines(call, runs, group or call.text("group"))
    return StreamingResponse(lines, media_type="application/json")


def _lines(call: Call, runs: list[Run], group: str | None) -> Iterator[bytes]:
    for run in runs:
        found = _reports(call, run, group)
        for begin in range(0, len(found), _AT_ONCE):
            part = {"metrics": found[begin : begin + _AT_ONCE]}
            yield json.dumps({"result": part}, separators=(",", ":")).encode() + b"\n"


def _reports(call: Call, run: Run, group: str | None) -> list[dict[str, Any]]:
    number = trial_number(call.gateway, run.id)
    found = whole_reports(call.gateway.service.plane.control.store.metrics, run, group)
    return [report_record(each, trial=number, place=place) for place, each in enumerate(found, start=1)]


def _of_checkpoint(call: Call) -> Any:
    """The reports of trials that used a checkpoint for inference."""
    records = call.gateway.records.named(RunRecordKind.METADATA, source_name(call.path("checkpoint")))
    runs = call.gateway.service.plane.control.store.load_runs([each.run_id for each in records])
    group = call.text("metricGroup")
    return {"metrics": [report for run in runs.values() for report in _reports(call, run, group)]}


ROUTES = (
    get("/api/v1/trials/metrics/trial_metrics", _stream, Access.TASK),
    get("/api/v1/trials/metrics/training_metrics", partial(_stream, group=TRAINING), Access.TASK),
    get("/api/v1/trials/metrics/validation_metrics", partial(_stream, group=VALIDATION), Access.TASK),
    get("/api/v1/checkpoints/{checkpoint}/metrics", _of_checkpoint, Access.TASK),
)
