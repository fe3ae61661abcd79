"""The live streams: a run's history and its logs, as async iterators of frames of server-sent events.

A stream needs no thread: it waits in the event loop for news of the control plane (`Changes`), and polls open
log files at the interval of their engine; only the reads use the thread pool. A few lines of our own over
StreamingResponse instead of sse-starlette: that library starts three helpers per stream (pings, disconnects,
shutdown), while these streams already wake up twenty times a second to read files.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarmac.model.actor import Actor
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.lifecycle import TERMINAL_STATES
from tarmac.server.http.connections import PEER
from tarmac.server.http.routing import whole
from tarmac.server.logs.log_view import LogSlice, LogView
from tarmac.server.records import run_record
from tarmac.server.service import Service

MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE_S = 15.0
COMMENT = b": still here\n\n"
"""Keeps a silent connection alive; clients ignore it."""

OF_ALL = 8
OF_ONE_PEER = 2
"""Event streams that are opened at a time, so that a crowd of one peer blocks no others."""

_STOPPING = "the server is stopping; its runs go on"


def wants_stream(request: Request) -> bool:
    """Whether the client asked for an event stream instead of a list."""
    return MEDIA_TYPE in request.headers.get("accept", "")


def frame(event: str, data: Any, *, identifier: str | None = None) -> bytes:
    """One message in wire format. JSON has no raw line breaks, so its data is one line."""
    head = f"id: {identifier}\n" if identifier is not None else ""
    return f"{head}event: {event}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def stopping_frame() -> bytes:
    """The message that the server was stopped on purpose: the client should not start it again at once."""
    return frame("stopping", {"text": _STOPPING})


class StreamResponse(StreamingResponse):
    """A streaming answer."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames, media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


class OpenInTurn:
    """An application that opens its event streams in turn; streams that are already open do not count."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._all = asyncio.Semaphore(OF_ALL)
        self._peers: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not wants_stream(Request(scope)):
            await self._app(scope, receive, send)
            return
        async with AsyncExitStack() as turn:

            async def send_and_leave(message: Message) -> None:
                await send(message)
                await turn.aclose()

            peer = scope.get(PEER)
            await turn.enter_async_context(self._peers.setdefault(peer, asyncio.Semaphore(OF_ONE_PEER)))
            await turn.enter_async_context(self._all)
            await self._app(scope, receive, send_and_leave)


SURVEY_PERIOD_S = 1.0
"""The interval at which a stream reads its run's state without news (another server may have changed it)."""

LOOK_REST_S, SURVEY_REST_S = 0.001, 0.005
"""The pause of a stream between two reads, or surveys, for each open stream."""

SURVEY_GAP_S = 0.02
"""The maximum pause between two surveys of a stream, so that many changes do not cause as many reads."""


async def event_frames(
    service: Service, actor: Actor, request: Request, run_id: str, after: int
) -> AsyncIterator[bytes]:
    """The history of a run after event number `after`, then new events, until its end."""
    pace = _Pace()
    run = await service.changes.read(service.plane.find, actor, run_id)
    over = run.state in TERMINAL_STATES
    with service.changes.watch(run_id) as watch:
        while True:
            version = watch.version
            pace.surveyed()
            events = await service.changes.read(service.plane.events, actor, run_id, after)
            for event in events:
                yield frame("event", event, identifier=str(event.seq))
                after = event.seq
                pace.spoke()
            if over or (events and events[-1].state in TERMINAL_STATES):
                run = await service.changes.read(service.plane.find, actor, run_id)
                yield frame("end", run_record(run))
                return
            if service.changes.stopping:
                yield stopping_frame()
                return
            if await request.is_disconnected():
                return
            if pace.silent():
                yield COMMENT
            await watch.after(version, service.changes.spread_s(SURVEY_PERIOD_S, SURVEY_REST_S))
            await pace.gap(service.changes.spread_s(LOOK_REST_S, LOOK_REST_S))


async def log_frames(service: Service, request: Request, view: LogView) -> AsyncIterator[bytes]:
    """The logs of a run, as frames of the messages of `view`."""
    async for look in log_slices(service, request, view):
        if look.messages:
            yield _framed(look, view)
        elif look.over:
            yield frame("end", view.run)
            return
        else:
            yield COMMENT
    if service.changes.stopping:
        yield stopping_frame()


async def log_slices(service: Service, request: Request, view: LogView) -> AsyncIterator[LogSlice]:
    """The slices of `view`; one without messages is a sign of life, or, with `over`, the end.

    It ends without that sign if the client has disconnected or the server is stopping.
    """
    pace = _Pace()
    survey = True
    with service.changes.watch(view.run_id) as watch:
        while True:
            version = watch.version
            if survey:
                pace.surveyed()
            look = NOTHING
            with suppress(Unavailable):  # the engine or the store is unreachable now: try again later
                look = await service.changes.read(view.look, survey=survey)
            if look.messages:
                yield look
                pace.spoke()
            if look.over or (not view.follows and not look.more):
                yield THE_END
                return
            if service.changes.stopping or await request.is_disconnected():
                return
            if pace.silent():
                yield NOTHING
            survey = look.more and watch.version > version
            if not look.more:
                period_s = SURVEY_PERIOD_S if view.idle else view.period_s
                changed = await watch.after(version, service.changes.spread_s(period_s, LOOK_REST_S))
                survey = changed or pace.survey_due(service.changes.spread_s(SURVEY_PERIOD_S, SURVEY_REST_S))
            if survey:
                await pace.gap(service.changes.spread_s(LOOK_REST_S, LOOK_REST_S))


NOTHING = LogSlice(messages=(), more=False, over=False)
THE_END = LogSlice(messages=(), more=False, over=True)


class _Pace:
    """Decides when a stream reads again or sends a comment."""

    def __init__(self) -> None:
        self._spoke_at = time.monotonic()
        self._surveyed_at = 0.0

    def surveyed(self) -> None:
        """Note that the state of the run is being read now."""
        self._surveyed_at = time.monotonic()

    def survey_due(self, period_s: float) -> bool:
        """Whether to read the state of the run without news."""
        return time.monotonic() - self._surveyed_at >= period_s

    async def gap(self, period_s: float) -> None:
        """Wait until the state may be read again: the maximum pause, or the period if it is less."""
        left_s = self._surveyed_at + min(period_s, SURVEY_GAP_S) - time.monotonic()
        if left_s > 0:
            await asyncio.sleep(left_s)

    def spoke(self) -> None:
        """Note that data was sent."""
        self._spoke_at = time.monotonic()

    def silent(self) -> bool:
        """Whether a comment is due after a time without data (the comment then counts as sent)."""
        due = time.monotonic() - self._spoke_at >= KEEP_ALIVE_S
        if due:
            self.spoke()
        return due


def _framed(look: LogSlice, view: LogView) -> bytes:
    """A batch of messages; the last log among them has the position in the whole stream."""
    last_log = max((at for at, (name, _) in enumerate(look.messages) if name == "log"), default=None)
    return b"".join(
        frame(name, data, identifier=format_places(view.places()) if at == last_log else None)
        for at, (name, data) in enumerate(look.messages)
    )


def parse(text: str) -> dict[str, int]:
    """The next offset of each named log; raises InvalidInput for malformed text."""
    places: dict[str, int] = {}
    for item in filter(None, text.split(",")):
        name, _, offset = item.rpartition(":")
        if name.count(".") < 3 or (place := whole(offset)) is None:
            raise InvalidInput(
                f"Last-Event-ID: {item!r:.80} is no place in a log", hint="such as 1.main.0.0:4096"
            )
        places[name] = place
    return places


def format_places(places: Mapping[str, int]) -> str:
    """The text form of places, which `parse` reads."""
    return ",".join(f"{name}:{offset}" for name, offset in places.items())
