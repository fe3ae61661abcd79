"""`det trial logs`, `det experiment logs`, `det task logs`: lines, also live. Listed in `application`."""

import re
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tarmac.api.history_operations import LogChunk
from tarmac.model.run import Run
from tarmac.server.logs.log_view import LogQuery, LogView
from tarmac.server.logs.streams import log_slices
from tarmac.systems.determined.gateway.calls import Call, Route, framed, seconds_of, time_of, whole
from tarmac.systems.determined.gateway.gateway import task_name

LONGEST = 8_191
"""Maximum characters of a line; the rest of a longer line becomes the next line."""

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_RANK = re.compile(r" ?\[rank=(\d+)\] ?")
_LEVEL = re.compile(r" ?(TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL): ?")
_LINE_ENDS = re.compile(r"\r\n|\n|\r(?!\Z)")
"""A progress bar returns to the beginning of its line: each of its states counts as a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Selects lines: empty or None is all. Times are seconds; `fields` has wanted values, -1 is no rank."""

    fields: Mapping[str, frozenset[Any]]
    text: str | None = None
    after: float | None = None
    before: float | None = None

    def wants(self, line: Mapping[str, Any], at: float) -> bool:
        """Whether the filter selects a line."""
        return (
            all(
                not values or (-1 if line[name] is None else line[name]) in values
                for name, values in self.fields.items()
            )
            and (self.text is None or self.text in line["log"])
            and (self.after is None or at > self.after)
            and (self.before is None or at < self.before)
        )


_FILTERS = {
    "level": "levels",
    "agentId": "agentIds",
    "containerId": "containerIds",
    "source": "sources",
    "stdtype": "stdtypes",
}
"""The parameter with the wanted values of each field of a line."""


@dataclass(slots=True)
class LogLines:
    """Splits chunks into lines: the end of a chunk waits for the rest of its line, or the next attempt."""

    task: str
    trial: int
    chosen: LogFilter
    _rests: dict[tuple[Any, ...], tuple[str, LogChunk]] = field(default_factory=dict)
    _attempt: int = 0
    _count: int = 0

    def take(self, chunk: LogChunk) -> Iterator[dict[str, Any]]:
        """The lines that are complete with this chunk."""
        if chunk.attempt != self._attempt:
            yield from self.finish()
            self._attempt = chunk.attempt
        key = chunk.role, chunk.replica, chunk.worker
        text = self._rests.pop(key, ("", chunk))[0] + chunk.text
        *whole, rest = _LINE_ENDS.split(text)
        for line in whole:
            yield from self._line(line, chunk)
        while len(rest) >= LONGEST:
            yield from self._line(rest[:LONGEST], chunk)
            rest = rest[LONGEST:]
        if rest:
            self._rests[key] = rest, chunk

    def finish(self) -> Iterator[dict[str, Any]]:
        """The unfinished last line of each log, without a newline."""
        for rest, chunk in self._rests.values():
            yield from self._line(rest.rstrip("\r"), chunk)
        self._rests.clear()

    def _line(self, text: str, chunk: LogChunk) -> Iterator[dict[str, Any]]:
        self._count += 1
        rank, log = chunk.rank, text
        if match := _RANK.match(text):
            rank, log = int(match[1]), text[match.end() :]
        level, shown = "INFO", log
        if match := _LEVEL.match(log):
            level, log = match[1], log[match.end() :]
            shown = f"{level}: {log}"
        stamp, at = time_of(chunk.at), chunk.at or 0.0
        node = str(chunk.node)
        label = f" [rank={rank}]" if rank is not None else ""
        found = {
            "id": str(self._count),
            "taskId": self.task,
            "trialId": self.trial,
            "timestamp": stamp,
            "level": f"LOG_LEVEL_{level}",
            "message": f"[{stamp}] {node[:8]}{label} || {shown}\n",
            "log": log,
            "rankId": rank,
            "agentId": node,
            "containerId": node,
            "source": "task",
            "stdtype": "stdout",
        }
        if self.chosen.wants(found, at):
            yield found


MOST_LAST_LINES = 1_000_000
"""Maximum lines in memory for answers that begin with the last line."""


def _run(call: Call) -> Run:
    """The run of the trial or task in the path; raises NotFound."""
    if "trial" in call.request.path_params:
        return call.trial()[1]
    return call.run_of_task(call.path("task"))


async def _logs(call: Call) -> StreamingResponse:
    run, gateway = await run_in_threadpool(_run, call), call.gateway
    query = LogQuery(times=True, follow=call.flag("follow") is True and not call.descends)
    view = await run_in_threadpool(
        LogView, gateway.plane, call.actor, run.id, query, gateway.service.secrets.mask
    )
    task, trial = task_name(gateway.experiment_of(run), run.id), gateway.trial_number(run.id)
    lines = LogLines(task=task, trial=trial, chosen=_filter(call))
    limit = max(0, call.whole("limit"))
    found = _lines(call, view, lines)
    body = _last(found, limit or MOST_LAST_LINES) if call.descends else _first(found, limit)
    return StreamingResponse(body, media_type="application/json")


Found = AsyncIterator[list[dict[str, Any]]]


async def _lines(call: Call, view: LogView, lines: LogLines) -> Found:
    async for look in log_slices(call.gateway.service, call.request, view):
        yield [line for _, data in look.messages if isinstance(data, LogChunk) for line in lines.take(data)]
    yield list(lines.finish())


async def _first(lines: Found, limit: int) -> AsyncIterator[bytes]:
    sent = 0
    async for found in lines:
        part = found[: limit - sent] if limit else found
        sent += len(part)
        if part:
            yield b"".join(map(framed, part))
        if limit and sent >= limit:
            return


async def _last(lines: Found, limit: int) -> AsyncIterator[bytes]:
    kept: deque[dict[str, Any]] = deque(maxlen=limit)
    async for found in lines:
        kept.extend(found)
    yield b"".join(map(framed, reversed(kept)))


def _filter(call: Call) -> LogFilter:
    after, before = call.text("timestampAfter"), call.text("timestampBefore")
    ranks = frozenset(whole("rankIds", each) for each in call.texts("rankIds"))
    return LogFilter(
        fields={name: frozenset(call.texts(given)) for name, given in _FILTERS.items()} | {"rankId": ranks},
        text=call.text("searchText"),
        after=seconds_of(after) if after else None,
        before=seconds_of(before) if before else None,
    )


def _fields(call: Call) -> Response:
    """The fields by which lines can be filtered."""
    attempts = call.plane.attempts(call.actor, _run(call).id)
    nodes = sorted({node for attempt in attempts for node in attempt.allocation.nodes})
    found = {"agentIds": nodes, "containerIds": nodes, "rankIds": [], "sources": ["task"]}
    content = {**found, "stdtypes": ["stdout"], "levels": [f"LOG_LEVEL_{level}" for level in LEVELS]}
    return Response(framed(content), media_type="application/json")


ROUTES = (
    Route("GET", "/api/v1/trials/{trial}/logs", _logs),
    Route("GET", "/api/v1/trials/{trial}/logs/fields", _fields),
    Route("GET", "/api/v1/tasks/{task}/logs", _logs),
    Route("GET", "/api/v1/tasks/{task}/logs/fields", _fields),
)
