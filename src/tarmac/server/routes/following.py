"""`/runs/{ref}/events`, `/logs`, `/reports`: a run's events and output, once or live. For `server.app`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tarmac import api
from tarmac.model.errors import InvalidInput
from tarmac.server.http.answers import JsonAnswer, notice
from tarmac.server.http.auth import CallingActor
from tarmac.server.http.sse import StreamResponse, wants_stream
from tarmac.server.logs.log_view import LogQuery, LogView
from tarmac.server.logs.reports import reports_of
from tarmac.server.logs.streams import event_frames, log_frames, parse
from tarmac.server.records.copying import copy_fields
from tarmac.server.requests import Count, Whole, whole
from tarmac.server.service import Service

_ONLY_NEWEST = "older reports are left out; tarmac metrics RUN --csv has every number that was kept"

LastEventId = Annotated[str | None, Header(alias="last-event-id")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParameters:
    """The query of `/logs`."""

    role: str | None = None
    replica: Whole | None = None
    worker: Whole | None = None
    rank: Whole | None = None
    attempt: Whole | None = None
    tail: Annotated[Whole | None, Query(description="only the last lines of each worker")] = None
    since: Annotated[float | None, Query(ge=0, description="only what the last SECONDS brought")] = None
    times: Annotated[bool, Query(description="each chunk with the time of its text")] = False
    follow: bool = True


def following_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about a run's history, logs and reports."""
    plane = service.plane

    @router.get("/runs/{ref}/events", response_model=list[api.Event])
    async def events(
        request: Request,
        actor: CallingActor,
        ref: str,
        after: Whole = 0,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Return the history of a run; as an event stream also later events, until its end."""
        if last_event_id:
            after = _sequence_number(last_event_id)
        run = await run_in_threadpool(plane.find, actor, ref)
        if wants_stream(request):
            return StreamResponse(event_frames(service, actor, request, run.id, after))
        history = await run_in_threadpool(plane.events, actor, run.id, after)
        return JsonAnswer([copy_fields(api.Event, event) for event in history])

    @router.get("/runs/{ref}/logs", response_model=list[api.LogChunk])
    async def logs(
        request: Request,
        actor: CallingActor,
        ref: str,
        parameters: Annotated[LogParameters, Depends()],
        last_event_id: LastEventId = None,
    ) -> Response:
        """Return the output of a run's workers; as an event stream also later output, until its end."""
        streams = wants_stream(request)
        query = _log_query(parameters, last_event_id, now=service.clock.now(), streams=streams)
        view = await run_in_threadpool(LogView, plane, actor, ref, query, service.secrets.mask)
        if streams:
            return StreamResponse(log_frames(service, request, view))
        return StreamingResponse(_log_list(view), media_type="application/json")

    @router.get("/runs/{ref}/reports", response_model=list[api.Report])
    def reports(actor: CallingActor, ref: str, limit: Count | None = None) -> Response:
        """Return the newest metrics and progress reported by a run's workers, up to 1 MiB.

        Without `limit` the header `Tarmac-Notice` mentions omitted older reports.
        """
        run = plane.find_here(actor, ref)
        found, is_cut = reports_of(plane, actor, run, service.secrets.mask(run), limit=limit)
        return JsonAnswer(found, headers=notice(_ONLY_NEWEST if is_cut and limit is None else None))


def _sequence_number(text: str) -> int:
    if (number := whole(text)) is None:
        raise InvalidInput(f"Last-Event-ID: {text!r:.80} is not the number of an event")
    return number


def _log_query(
    parameters: LogParameters, last_event_id: str | None, *, now: float, streams: bool
) -> LogQuery:
    return LogQuery(
        role=parameters.role,
        replica=parameters.replica,
        worker=parameters.worker,
        rank=parameters.rank,
        attempt=parameters.attempt,
        tail=parameters.tail,
        since=None if parameters.since is None else now - parameters.since,
        times=parameters.times,
        follow=streams and parameters.follow,
        places=parse(last_event_id or ""),
    )


def _log_list(view: LogView) -> Iterator[str]:
    """The present chunks as one JSON list, piece by piece: logs may be larger than memory."""
    separator = "["
    more = True
    while more:
        look = view.look(survey=False)
        for name, data in look.messages:
            if name == "log":
                yield separator + json.dumps(data)
                separator = ","
        more = look.more
    yield "[]" if separator == "[" else "]"
