"""`/runs/{ref}/events`, `/logs`, `/reports`: a run's events and output, once or live. For `server.app`."""

from collections.abc import Iterator

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tarmac import api
from tarmac.api.operation import JSON
from tarmac.model.codec import inherited
from tarmac.model.errors import InvalidInput
from tarmac.server.http.answers import JsonAnswer, notice
from tarmac.server.http.routing import Call, Routes, whole
from tarmac.server.http.sse import StreamResponse, wants_stream
from tarmac.server.logs.log_view import LogQuery, LogView
from tarmac.server.logs.reports import reports_of
from tarmac.server.logs.streams import event_frames, log_frames, parse
from tarmac.server.service import Service

_ONLY_NEWEST = "older reports are left out; tarmac metrics RUN --csv has every number that was kept"


def add_following_routes(routes: Routes, service: Service) -> None:
    """Add the routes about a run's history, logs and reports."""
    plane = service.plane

    @routes.serve(api.EVENTS)
    async def events(call: Call[api.EventsQuery]) -> Response:
        """Return the history of a run; as an event stream also later events, until its end.

        A stream has messages `event` (`Event`), and last `end` (`Run`). The id of a message is the `seq` of
        its event; the header `Last-Event-ID` resumes a stream after that event.
        """
        after = call.query.after
        if last := call.request.headers.get("last-event-id"):
            if (number := whole(last)) is None:
                raise InvalidInput(f"Last-Event-ID: {last!r:.80} is not the number of an event")
            after = number
        run = await run_in_threadpool(plane.find, call.actor, call.reference)
        if wants_stream(call.request):
            return StreamResponse(event_frames(service, call.actor, call.request, run.id, after))
        history = await run_in_threadpool(plane.events, call.actor, run.id, after)
        return JsonAnswer(history)

    @routes.serve(api.LOGS)
    async def logs(call: Call[api.LogsQuery]) -> Response:
        """Return the output of a run's workers; as an event stream also later output, until its end.

        A stream has messages `log` (`LogChunk`), `state` (`RunStatus`) and `notice` (`StreamNotice`), and
        last `end` (`Run`), after every byte. The header `Last-Event-ID` resumes a stream.
        """
        streams, chosen = wants_stream(call.request), call.query
        query = LogQuery(
            **inherited(api.LogsQuery, chosen, but="follow"),
            follow=streams and chosen.follow,
            since_at=None if chosen.since is None else service.clock.now() - chosen.since,
            places=parse(call.request.headers.get("last-event-id", "")),
        )
        view = await run_in_threadpool(
            LogView, plane, call.actor, call.reference, query, service.secrets.mask
        )
        if streams:
            return StreamResponse(log_frames(service, call.request, view))
        return StreamingResponse(_log_list(view), media_type=JSON)

    @routes.serve(api.REPORTS)
    def reports(call: Call[api.ReportsQuery]) -> Response:
        """Return the newest metrics and progress reported by a run's workers, up to 1 MiB, oldest first.

        The server reads the ends of the files of the newest attempts. Without `limit` the header
        `Tarmac-Notice` mentions omitted older reports.
        """
        run, limit = plane.find_here(call.actor, call.reference), call.query.limit
        found, is_cut = reports_of(plane, call.actor, run, service.secrets.mask(run), limit=limit)
        return JsonAnswer(found, headers=notice(_ONLY_NEWEST if is_cut and limit is None else None))


def _log_list(view: LogView) -> Iterator[bytes]:
    """The present chunks as one JSON list, piece by piece: logs may be larger than memory."""
    separator = b"["
    more = True
    while more:
        look = view.look(survey=False)
        for name, data in look.messages:
            if name == "log":
                yield separator + msgspec.json.encode(data)
                separator = b","
        more = look.more
    yield b"[]" if separator == b"[" else b"]"
