"""The live streams: a run's history and its logs, as async iterators of frames for `sse.StreamResponse`.

A stream costs no thread: it waits in the event loop for news of the control plane (`Changes`), and while
log files are open it looks at them as often as their engine allows; only the reading happens in the thread
pool.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from starlette.requests import Request

from tarmac import api
from tarmac.model.actor import Actor
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.lifecycle import TERMINAL_STATES
from tarmac.server.http.sse import COMMENT, KEEP_ALIVE_S, frame, stopping_frame
from tarmac.server.logs.log_view import LogSlice, LogView
from tarmac.server.records.copying import copy_fields
from tarmac.server.records.runs import run_record
from tarmac.server.requests import whole
from tarmac.server.service import Service

SURVEY_PERIOD_S = 1.0
"""How often a stream reads the state of its run without news (another server may have changed it)."""

LOOK_REST_S, SURVEY_REST_S = 0.001, 0.005
"""How long a stream rests between two looks, or surveys, for every stream that is open."""

SURVEY_GAP_S = 0.02
"""How long a stream rests between two surveys, so that a storm of changes does not make a storm of reads."""


async def event_frames(
    service: Service, actor: Actor, request: Request, run_id: str, after: int
) -> AsyncIterator[bytes]:
    """The history of a run after event number `after`, then what happens, until its end."""
    pace = _Pace(request)
    run = await service.changes.read(service.plane.find, actor, run_id)
    over = run.state in TERMINAL_STATES
    with service.changes.watch(run_id) as watch:
        while True:
            version = watch.version
            pace.surveyed()
            events = await service.changes.read(service.plane.events, actor, run_id, after)
            for event in events:
                yield frame("event", copy_fields(api.Event, event), identifier=str(event.seq))
                after = event.seq
                pace.spoke()
            if over or (events and events[-1].state in TERMINAL_STATES):
                run = await service.changes.read(service.plane.find, actor, run_id)
                yield frame("end", run_record(run))
                return
            if service.changes.stopping:
                yield stopping_frame()
                return
            if await pace.abandoned():
                return
            if pace.silent():
                yield COMMENT
            await watch.after(version, service.changes.spread_s(SURVEY_PERIOD_S, SURVEY_REST_S))
            await pace.gap()


async def log_frames(service: Service, request: Request, view: LogView) -> AsyncIterator[bytes]:
    """The logs of a run as `view` finds them."""
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
    """What `view` finds, as it comes; a slice without messages is a sign of life, or, `over`, the end.

    It ends without that sign where the client has gone or the server is leaving.
    """
    pace = _Pace(request)
    survey = True
    with service.changes.watch(view.run_id) as watch:
        while True:
            version = watch.version
            if survey:
                pace.surveyed()
            look = NOTHING
            with suppress(Unavailable):  # the engine or the store cannot be reached now: look again later
                look = await service.changes.read(view.look, survey=survey)
            if look.messages:
                yield look
                pace.spoke()
            if look.over or (not view.follows and not look.more):
                yield THE_END
                return
            if service.changes.stopping or await pace.abandoned():
                return
            if pace.silent():
                yield NOTHING
            survey = look.more and watch.version > version
            if not look.more:
                period_s = SURVEY_PERIOD_S if view.idle else view.period_s
                changed = await watch.after(version, service.changes.spread_s(period_s, LOOK_REST_S))
                survey = changed or pace.survey_due(service.changes.spread_s(SURVEY_PERIOD_S, SURVEY_REST_S))
            if survey:
                await pace.gap()


NOTHING = LogSlice(messages=(), more=False, over=False)
THE_END = LogSlice(messages=(), more=False, over=True)


class _Pace:
    """When a stream looks again, sends a comment, or gives up because the client has gone."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._spoke_at = time.monotonic()
        self._surveyed_at = 0.0

    def surveyed(self) -> None:
        """The state of the run is being read now."""
        self._surveyed_at = time.monotonic()

    def survey_due(self, period_s: float) -> bool:
        """Whether to read the state of the run without news."""
        return time.monotonic() - self._surveyed_at >= period_s

    async def gap(self) -> None:
        """Wait until the state may be read again."""
        left_s = self._surveyed_at + SURVEY_GAP_S - time.monotonic()
        if left_s > 0:
            await asyncio.sleep(left_s)

    def spoke(self) -> None:
        """Something was sent."""
        self._spoke_at = time.monotonic()

    def silent(self) -> bool:
        """Whether nothing was sent for so long that a comment is due (and then counts as sent)."""
        due = time.monotonic() - self._spoke_at >= KEEP_ALIVE_S
        if due:
            self.spoke()
        return due

    async def abandoned(self) -> bool:
        """Whether the client went away."""
        return await self._request.is_disconnected()


def _framed(look: LogSlice, view: LogView) -> bytes:
    """A batch of messages; the last log among them carries the place in the whole stream."""
    last_log = max((at for at, (name, _) in enumerate(look.messages) if name == "log"), default=None)
    return b"".join(
        frame(name, data, identifier=format_places(view.places()) if at == last_log else None)
        for at, (name, data) in enumerate(look.messages)
    )


def parse(text: str) -> dict[str, int]:
    """The offset that comes next in each log named; raises InvalidInput for anything else."""
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
    """The text that `parse` reads."""
    return ",".join(f"{name}:{offset}" for name, offset in places.items())
