"""`det trial logs`, `det experiment logs`, `det task logs`: lines, also live. Listed in `route_list`."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tarmac.model.run import Run
from tarmac.server.logs.log_view import LogQuery, LogView
from tarmac.server.logs.streams import log_slices
from tarmac.systems.determined.gateway.calls import Call, get, whole
from tarmac.systems.determined.gateway.numbering import (
    experiment_number,
    run_of_task,
    task_name,
    trial_number,
    trial_of,
)
from tarmac.systems.determined.gateway.records.log_lines import LEVELS, LogFilter, LogLines
from tarmac.systems.determined.gateway.records.written import is_descending, seconds_of

MOST_LAST_LINES = 1_000_000
"""Maximum lines in memory for answers that begin with the last line."""


def _run(call: Call) -> Run:
    """The run of the trial or task in the path; raises NotFound."""
    if "trial" in call.request.path_params:
        return trial_of(call.gateway, call.number("trial"))[1]
    return run_of_task(call.gateway, call.path("task"))


async def _logs(call: Call) -> StreamingResponse:
    run = await run_in_threadpool(_run, call)
    gateway, experiment = call.gateway, run.spec.trial.experiment if run.spec.trial is not None else run.id
    query = LogQuery(times=True, follow=call.flag("follow") is True and not is_descending(call))
    view = await run_in_threadpool(
        LogView, gateway.service.plane, call.actor, run.id, query, gateway.service.secrets.mask
    )
    lines = LogLines(
        task=task_name(experiment_number(gateway, experiment), run.id),
        trial=trial_number(gateway, run.id),
        chosen=_filter(call),
    )
    limit = max(0, call.whole("limit"))
    if is_descending(call):
        body = _last(call, view, lines, limit or MOST_LAST_LINES)
    else:
        body = _first(call, view, lines, limit)
    return StreamingResponse(body, media_type="application/json")


async def _lines(call: Call, view: LogView, lines: LogLines) -> AsyncIterator[list[dict[str, Any]]]:
    async for look in log_slices(call.gateway.service, call.request, view):
        yield [line for name, data in look.messages if name == "log" for line in lines.take(data)]
    yield list(lines.finish())


async def _first(call: Call, view: LogView, lines: LogLines, limit: int) -> AsyncIterator[bytes]:
    sent = 0
    async for found in _lines(call, view, lines):
        part = found[: limit - sent] if limit else found
        sent += len(part)
        if part:
            yield b"".join(_framed(part))
        if limit and sent >= limit:
            return


async def _last(call: Call, view: LogView, lines: LogLines, limit: int) -> AsyncIterator[bytes]:
    kept: deque[dict[str, Any]] = deque(maxlen=limit)
    async for found in _lines(call, view, lines):
        kept.extend(found)
    yield b"".join(_framed(list(reversed(kept))))


def _framed(lines: list[dict[str, Any]]) -> Iterator[bytes]:
    for line in lines:
        yield json.dumps({"result": line}, separators=(",", ":")).encode() + b"\n"


def _filter(call: Call) -> LogFilter:
    after, before = call.text("timestampAfter"), call.text("timestampBefore")
    return LogFilter(
        levels=frozenset(call.texts("levels")),
        ranks=frozenset(whole("rankIds", each) for each in call.texts("rankIds")),
        agents=frozenset(call.texts("agentIds")),
        containers=frozenset(call.texts("containerIds")),
        sources=frozenset(call.texts("sources")),
        stdtypes=frozenset(call.texts("stdtypes")),
        text=call.text("searchText"),
        after=seconds_of(after) if after else None,
        before=seconds_of(before) if before else None,
    )


async def _fields(call: Call) -> StreamingResponse:
    """The fields by which lines can be filtered."""
    run = await run_in_threadpool(_run, call)
    attempts = await run_in_threadpool(call.gateway.service.plane.attempts, call.actor, run.id)
    nodes = sorted({node for attempt in attempts for node in attempt.allocation.nodes})
    found = {"agentIds": nodes, "containerIds": nodes, "rankIds": [], "sources": ["task"]}
    content = {**found, "stdtypes": ["stdout"], "levels": [f"LOG_LEVEL_{level}" for level in LEVELS]}
    return StreamingResponse(
        iter([json.dumps({"result": content}).encode() + b"\n"]), media_type="application/json"
    )


ROUTES = (
    get("/api/v1/trials/{trial}/logs", _logs),
    get("/api/v1/trials/{trial}/logs/fields", _fields),
    get("/api/v1/tasks/{task}/logs", _logs),
    get("/api/v1/tasks/{task}/logs/fields", _fields),
)
