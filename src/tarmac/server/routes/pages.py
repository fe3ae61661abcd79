"""The server itself, and its page: the document, the files, and the way in. Joined by `server.app`."""

import re
import time
from collections.abc import Mapping
from contextlib import suppress

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import tarmac
from tarmac import api
from tarmac.api.operation import Query
from tarmac.control.permissions import ALLOWED, check
from tarmac.model.actor import Action, Actor, ActorRole
from tarmac.model.errors import NotFound, Refused, TarmacError
from tarmac.server.accounts.account_service import SESSION_S
from tarmac.server.exposition import CONTENT_TYPE, rendered
from tarmac.server.http.answers import JsonAnswer, response
from tarmac.server.http.auth import CALLER, SESSION_COOKIE
from tarmac.server.http.routing import Call, decoded_query, serve
from tarmac.server.operation import failures, metrics
from tarmac.server.page.files import PageFiles
from tarmac.server.routes.tables import table_of
from tarmac.server.service import Handlers, Service

_DOCUMENTS = frozenset({"text/html", "application/xhtml+xml"})
_TERMINAL = re.compile(r"/run/[^/]+/terminal")


class PageHandlers(Handlers):
    """The routes about the server itself and its pages, and those at the usual paths for monitoring."""

    @serve(api.VERSION)
    async def version(self, _call: Call) -> Response:
        """Return the version of the server."""
        return JsonAnswer(_version(self.service))

    @serve(api.ANNOUNCE)
    def announce(self, call: Call[Query, api.AnnouncementBody]) -> api.Version:
        """Announce a text to everyone who uses the servers on this database, or clear the announcement.

        Every answer then has the header `tarmac-announcement`, percent-encoded.
        """
        check(call.actor, Action.MANAGE)
        body = call.body
        self.service.announcements.announce(body.text, user=call.actor.user, until_at=body.until_at)
        return _version(self.service)

    @serve(api.STOP_SERVER)
    async def stop(self, call: Call) -> Response:
        """Stop the server after this answer. Runs continue, and the next server finds them."""
        check(call.actor, Action.MANAGE)
        return JsonAnswer({}, status_code=202, background=BackgroundTask(self.service.stop))

    @serve(api.HEALTH)
    def health(self, _call: Call) -> Response:
        """Return whether the server works: 200, or 503 with the reasons."""
        reasons = failures(self.service)
        return JsonAnswer(
            api.Health(healthy=not reasons, reasons=reasons), status_code=503 if reasons else 200
        )

    @serve(api.SERVER_METRICS)
    def numbers(self, _call: Call) -> Response:
        """Return the numbers of the server, in the text format of Prometheus."""
        return Response(rendered(metrics(self.service)), media_type=CONTENT_TYPE)

    @serve(api.PAGE)
    def page(self, call: Call) -> api.PageFacts:
        """Return the caller, with the actions that its roles allow somewhere, and the server."""
        return _facts(self.service, call.request)

    @serve(api.OPEN_PAGE)
    async def open_page(self, call: Call) -> Response:
        """Return the address of the page.

        For the owner of the server, on its machine, a server without TLS listens on a loopback address, and
        the address admits one browser as that owner. Other users log in. 409 for another user of that
        machine, if the server has no address.
        """
        caller = call.caller
        if not caller.local:
            return JsonAnswer(api.PageAddress(url=str(call.request.base_url), expires_at=None))
        if ActorRole.ADMIN not in caller.actor.roles:
            raise Refused("only the owner of this server can open its page without an account")
        url, expires_at = self.service.door.open(self.service.listen)
        return JsonAnswer(api.PageAddress(url=url, expires_at=expires_at))


def _version(service: Service) -> api.Version:
    return api.Version(
        version=tarmac.__version__,
        pid=service.pid,
        home=str(service.home.root),
        started_at=service.started_at,
        now=time.time(),
        announcement=service.announcements.current(),
    )


def page_routes(service: Service, files: PageFiles) -> list[Route]:
    """The routes for browsers: every path that no other route has is a page."""

    async def enter(request: Request) -> Response:
        try:
            session = service.door.enter(request.path_params["code"])
        except TarmacError as error:
            return files.document({"error": api.error_form(error)}, status=error.http_status)
        answer = RedirectResponse("/", status_code=303, headers={"Cache-Control": "no-store"})
        answer.set_cookie(
            SESSION_COOKIE, session, max_age=int(SESSION_S), secure=True, httponly=True, samesite="lax"
        )
        return answer

    def asset(request: Request) -> Response:
        compressed = "gzip" in request.headers.get("accept-encoding", "")
        found = files.file(request.path_params["name"], compressed=compressed)
        return found or response(NotFound(f"the page has no file {request.path_params['name']!r:.100}"))

    def document(request: Request) -> Response:
        accepted = request.headers.get("accept", "").split(",")
        if not any(each.partition(";")[0].strip() in _DOCUMENTS for each in accepted):
            return response(NotFound(f"no route has the path {request.url.path!r:.200}"))
        terminal = _TERMINAL.fullmatch(request.url.path) is not None
        return files.document(_first(service, request), terminal=terminal)

    return [
        Route("/enter/{code}", enter, methods=["GET"]),
        Route("/assets/{name}", asset, methods=["GET"]),
        Route("/{path:path}", document, methods=["GET"]),
    ]


def _first(service: Service, request: Request) -> Mapping[str, object]:
    """The answers to the first requests of a page: the caller, and the runs of the table of runs.

    The query of that page is the query of its table. A table that the server refuses is left out: the page
    asks for it again, and shows the refusal.
    """
    first: dict[str, object] = {"page": _facts(service, request)}
    if CALLER in request.scope and request.url.path == "/":
        with suppress(TarmacError):
            actor = request.scope[CALLER].actor
            check(actor, api.RUN_TABLE.action)
            first["runs"] = table_of(service, actor, decoded_query(api.RunWindowQuery, request))
    return first


def _facts(service: Service, request: Request) -> api.PageFacts:
    caller = request.scope.get(CALLER)
    actor = caller.actor if caller is not None else None
    return api.PageFacts(
        user=actor.user if actor is not None else None,
        actions=_actions(actor) if actor is not None else (),
        controls_others=actor is not None and (ActorRole.ADMIN in _roles(actor) or bool(actor.controls)),
        version=tarmac.__version__,
        now=service.clock.now(),
        single_sign_on=service.sign_on.available,
        systems=[each.name for each in service.reading.dialects if each.columns],
        announcement=service.announcements.current() if actor is not None else None,
    )


def _actions(actor: Actor) -> list[Action]:
    """The actions that a role of the actor allows, on the server or in a project, within its scopes."""
    allowed = {action for role in _roles(actor) for action in ALLOWED[role]}
    return sorted(allowed if actor.scopes is None else allowed & actor.scopes)


def _roles(actor: Actor) -> set[ActorRole]:
    """The roles of the actor on the server and in projects."""
    return {*actor.roles, *(role for role in actor.projects.values() if role is not None)}
