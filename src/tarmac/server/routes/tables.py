"""Tables of runs for pages, and their changes as they happen. Joined by `server.app`."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from time import monotonic

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import RunScope
from tarmac.control.permissions import check
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, TarmacError, suggestion
from tarmac.model.summary import RunSummary
from tarmac.server.changes import EVERY_RUN
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CALLER, RENEW, Caller
from tarmac.server.http.routing import Call, Routes, whole
from tarmac.server.logs.streams import (
    COMMENT,
    KEEP_ALIVE_S,
    StreamResponse,
    frame,
    stopping_frame,
    wants_stream,
)
from tarmac.server.service import Service

GAP_S = 0.25
"""The least time between two messages of a stream: a person sees no more."""

LOOK_S = 1.0
"""The longest time between two looks: other servers on the database announce nothing here."""

RENEW_S = 10.0
"""The longest time for which a stream relies on the rights that its caller had."""

MOST_EVENTS = 500
"""The most changes in one message; where there are more, a page reads its table again."""

_FIELDS = RunSummary.__struct_fields__


def add_table_routes(routes: Routes, service: Service) -> None:
    """Add the routes about tables of runs."""
    plane = service.plane

    @routes.serve(api.RUN_TABLE)
    def table(call: Call[api.RunWindowQuery]) -> api.RunTable:
        """Return a window of the table of all runs, filtered and in any order.

        Filters and order see all runs, however many the window has.
        """
        return table_of(service, call.actor, call.query)

    @routes.serve(api.RUN_COUNTS)
    def counts(call: Call) -> dict[str, dict[str, int]]:
        """Return the number of runs with each status, user, project, mode, cluster, pool and system."""
        return plane.tables.counts(call.actor)

    @routes.serve(api.RUN_CHANGES)
    async def changes(call: Call[api.ChangesQuery]) -> Response:
        """Return the runs that have changed; as an event stream also those that change later.

        A stream has messages `runs` (`RunChanges`), at most four a second; the id of a message is the number
        of its last change, and the header `Last-Event-ID` resumes a stream after it. The stream ends when
        the rights of its caller end.
        """
        fields, after = _chosen(call.query.field), call.query.after
        if last := call.request.headers.get("last-event-id"):
            after = whole(last)
        if after is None:
            after = await run_in_threadpool(plane.tables.last_change)
        if wants_stream(call.request):
            return StreamResponse(_frames(service, call.request, fields, after))
        return JsonAnswer(await run_in_threadpool(_changes, service, call.caller, fields, after))


def table_of(service: Service, actor: Actor, query: api.RunWindowQuery) -> api.RunTable:
    """A window of the table of the runs that the actor may see. Raises InvalidInput."""
    _check_names("sort", [query.sort.removeprefix("-")], [*_FIELDS, "status"])
    fields = _chosen(query.field)
    if query.scope is RunScope.MINE:
        query = replace(query, user=(actor.user,))
    total, found = service.plane.tables.window(actor, query)
    return api.RunTable(total=total, fields=fields, rows=_rows(found, fields))


def _chosen(names: Sequence[str]) -> Sequence[str]:
    _check_names("field", names, _FIELDS)
    return names or _FIELDS


def _check_names(what: str, names: Iterable[str], allowed: Sequence[str]) -> None:
    for name in names:
        if name not in allowed:
            raise InvalidInput(
                f"{what}: {name!r:.100} is no field of a run",
                hint=suggestion(name, allowed, f"fields: {', '.join(allowed)}"),
            )


def _rows(lines: Iterable[RunSummary], fields: Sequence[str]) -> list[list[object]]:
    return [[getattr(line, name) for name in fields] for line in lines]


def _changes(service: Service, caller: Caller, fields: Sequence[str], after: int) -> api.RunChanges:
    until, found, more = service.plane.tables.changes(caller.actor, after, limit=MOST_EVENTS)
    return api.RunChanges(until=until, fields=fields, rows=_rows(found, fields), more=more)


async def _frames(
    service: Service, request: Request, fields: Sequence[str], after: int
) -> AsyncIterator[bytes]:
    """The changes of runs after event number `after`, until the client leaves or loses its rights."""
    changes, caller = service.changes, request.scope[CALLER]
    spoke = renewed = monotonic()
    yield frame("open", {}, identifier=str(after))
    with changes.watch(EVERY_RUN) as watch:
        while not changes.stopping:
            version, now = watch.version, monotonic()
            if now - renewed > RENEW_S:
                try:
                    caller, renewed = await request.scope[RENEW](), now
                    check(caller.actor, api.RUN_CHANGES.action)
                except TarmacError as error:
                    yield frame("refused", api.Error(error=api.error_form(error)))
                    return
            found = await changes.read(_changes, service, caller, fields, after)
            if found.rows or found.more:
                yield frame("runs", found, identifier=str(found.until))
            elif now - spoke > KEEP_ALIVE_S:
                yield COMMENT
            if found.until != after or now - spoke > KEEP_ALIVE_S:
                after, spoke = found.until, now
            if await request.is_disconnected():
                return
            await asyncio.sleep(GAP_S)
            await watch.after(version, changes.spread_s(LOOK_S, GAP_S / 10))
    yield stopping_frame()
