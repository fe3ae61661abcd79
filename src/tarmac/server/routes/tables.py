"""Tables of runs for pages, their changes as they happen, and saved views. Joined by `server.app`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from time import monotonic
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import Query, RunScope
from tarmac.control.permissions import check
from tarmac.dialects.dialect import Dialect, report_in
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, TarmacError, suggestion
from tarmac.model.summary import FACETS, Project, RunSummary, SavedView
from tarmac.server.changes import EVERY_RUN
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CALLER, RENEW, Caller
from tarmac.server.http.routing import Call, serve, whole
from tarmac.server.logs import streams
from tarmac.server.routes.experiments import numbers_of
from tarmac.server.service import Handlers, Service

GAP_S = 0.25
"""The least time between two messages of a stream: a person sees no more."""

LOOK_S = 1.0
"""The longest time between two looks: other servers on the database announce nothing here."""

RENEW_S = 10.0
"""The longest time for which a stream relies on the rights that its caller had."""

MOST_EVENTS = 500
"""The most changes in one message; where there are more, a page reads its table again."""

_FIELDS = RunSummary.__struct_fields__


class TableHandlers(Handlers):
    """The routes about tables of runs."""

    @serve(api.RUN_TABLE)
    def table(self, call: Call[api.RunWindowQuery]) -> api.RunTable:
        """Return a window of the table of all runs, filtered and in any order.

        Filters and order see all runs, however many the window has.
        """
        return table_of(self.service, call.actor, call.query)

    @serve(api.RUN_COUNTS)
    def counts(self, call: Call[api.RunCountsQuery]) -> dict[str, int]:
        """Return the number of runs with each status, user, project, mode, cluster, pool or system."""
        _check_names("field", [call.query.field], FACETS)
        query = call.query
        if query.field == "status" and query.shown_as is not None:
            return _word_counts(self.service, call.actor, query)
        return self.plane.tables.counts(call.actor, query.field, _filtered(self.service, call.actor, query))

    @serve(api.PROJECTS)
    def projects(self, call: Call) -> list[Project]:
        """Return the projects, that of the newest run first. A project exists once a run names it."""
        return self.plane.tables.projects(call.actor)

    @serve(api.VIEWS)
    def views(self, call: Call) -> list[SavedView]:
        """Return the views of the table of runs that the caller has saved, by name."""
        return self.plane.tables.saved_views(call.actor)

    @serve(api.SAVE_VIEW)
    def save_view(self, call: Call[Query, api.ViewBody]) -> list[SavedView]:
        """Save a view in place of the one with its name, and return all. 409 for a 101st one."""
        return self.plane.tables.save_view(call.actor, SavedView(name=call.body.name, query=call.body.query))

    @serve(api.DELETE_VIEW)
    def delete_view(self, call: Call[api.ViewQuery]) -> list[SavedView]:
        """Delete a saved view, if there is one of this name, and return those that are left."""
        return self.plane.tables.forget_view(call.actor, call.query.name)

    @serve(api.RUN_CHANGES)
    async def changes(self, call: Call[api.ChangesQuery]) -> Response:
        """Return the runs that have changed; as an event stream also those that change later.

        A stream has messages `runs` (`RunChanges`), at most four a second, which also name other things that
        have changed. The id of a message is the number of its last change, and the header `Last-Event-ID`
        resumes a stream after it. The stream ends when the rights of its caller end.
        """
        fields, after = _chosen(call.query.field), call.query.after
        if last := call.request.headers.get("last-event-id"):
            after = whole(last)
        seen = 0
        if after is None:
            seen, _ = self.service.changes.paths_after(0)
            after = await run_in_threadpool(self.plane.tables.last_change)
        if streams.wants_stream(call.request):
            return streams.StreamResponse(_frames(self.service, call.request, fields, after, seen))
        return JsonAnswer(await run_in_threadpool(_changes, self.service, call.caller, fields, after))


def table_of(service: Service, actor: Actor, query: api.RunWindowQuery) -> api.RunTable:
    """A window of the table of the runs that the actor may see. Raises InvalidInput."""
    _check_names("sort", [query.sort.removeprefix("-")], [*_FIELDS, "status"])
    fields = _chosen(query.field)
    columns = _dialect(service, query.shown_as).columns if query.shown_as is not None else ()
    total, found = service.plane.tables.window(actor, _filtered(service, actor, query))
    rows = _rows(found, fields)
    if columns:
        numbers = numbers_of(service, [line.id for line in found])
        for row, line in zip(rows, found, strict=True):
            number = numbers[line.id].experiment if line.id in numbers else None
            row += [column.text(line, number) for column in columns]
    heads = [api.RunColumn(title=each.title, sort=each.sort, right=each.right) for each in columns]
    return api.RunTable(total=total, fields=fields, columns=heads, rows=rows)


def _dialect(service: Service, system: str) -> Dialect:
    listed = {each.name: each for each in service.reading.dialects if each.columns}
    if system not in listed:
        hint = suggestion(system, listed, f"known: {', '.join(sorted(listed))}")
        raise InvalidInput(f"as: no table has the columns of {system!r:.100}", hint=hint)
    return listed[system]


Scoped = TypeVar("Scoped", api.RunWindowQuery, api.RunCountsQuery)


def _filtered(service: Service, actor: Actor, query: Scoped) -> Scoped:
    """The query for the store: with the actor for a scope, and kinds for another system's words."""
    if query.scope is RunScope.MINE:
        query = replace(query, user=(actor.user,), scope=RunScope.ALL)
    if query.shown_as is None or not query.status:
        return query
    status = _dialect(service, query.shown_as).status
    counts = service.plane.tables.counts(actor, "kind", replace(query, status=()))
    kinds = {kind: report_in(kind) for kind in counts}
    chosen = {kind for kind, report in kinds.items() if status(report) in query.status}
    own = {str(report.outcome or report.state) for kind, report in kinds.items() if kind in chosen}
    return replace(query, status=tuple(own) or ("",), kind=tuple(chosen))


def _word_counts(service: Service, actor: Actor, query: api.RunCountsQuery) -> dict[str, int]:
    """The number of runs with each status in the words of another system."""
    status, found = _dialect(service, query.shown_as or "").status, Counter[str]()
    query = _filtered(service, actor, replace(query, status=()))
    for kind, number in service.plane.tables.counts(actor, "kind", query).items():
        found[status(report_in(kind))] += number
    return found


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
    service: Service, request: Request, fields: Sequence[str], after: int, seen: int
) -> AsyncIterator[bytes]:
    """The changes of runs after event number `after`, and of other things after the change number `seen`.

    It ends when the client leaves or loses its rights.
    """
    changes, caller = service.changes, request.scope[CALLER]
    spoke = renewed = monotonic()
    yield streams.frame("open", {}, identifier=str(after))
    with changes.watch(EVERY_RUN) as watch:
        while not changes.stopping:
            version, now = watch.version, monotonic()
            if now - renewed > RENEW_S:
                try:
                    caller, renewed = await request.scope[RENEW](), now
                    check(caller.actor, api.RUN_CHANGES.action)
                except TarmacError as error:
                    yield streams.frame("refused", api.Error(error=api.error_form(error)))
                    return
            seen, paths = changes.paths_after(seen)
            found = await changes.read(_changes, service, caller, fields, after)
            if found.rows or found.more or paths:
                found = replace(found, paths=paths)
                yield streams.frame("runs", found, identifier=str(found.until))
            elif now - spoke > streams.KEEP_ALIVE_S:
                yield streams.COMMENT
            if found.until != after or now - spoke > streams.KEEP_ALIVE_S:
                after, spoke = found.until, now
            if await request.is_disconnected():
                return
            await asyncio.sleep(GAP_S)
            await watch.after(version, changes.spread_s(LOOK_S, GAP_S / 10))
    yield streams.stopping_frame()
