"""The gateway as an application: authenticates callers, reads requests, sends answers. Called by `daemon`."""

import inspect
import json
import logging
from collections.abc import Collection
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as WebRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from tarmac.control.permissions import check
from tarmac.model.actor import Actor
from tarmac.model.errors import InvalidInput, TarmacError, TooLarge, Unauthorized
from tarmac.server.http.answers import JsonAnswer, send_after_record
from tarmac.server.http.auth import CALLER
from tarmac.systems.determined.gateway.calls import Access, Call, Route, bearer
from tarmac.systems.determined.gateway.gateway import Gateway
from tarmac.systems.determined.gateway.routes import (
    checkpoints,
    cluster,
    experiments,
    jobs,
    login,
    logs,
    master,
    projects,
    queries,
    resources,
    tasks,
    users,
)
from tarmac.systems.determined.gateway.routes.users import caller_of, code_of
from tarmac.systems.determined.gateway.tasks import check_attempt
from tarmac.systems.determined.gateway.tokens import TokenKind

_PARTS = (
    *(login, users, master, projects, queries, experiments),
    *(logs, checkpoints, jobs, cluster, resources, tasks),
)
ROUTES: tuple[Route, ...] = tuple(route for part in _PARTS for route in part.ROUTES)
"""Every route of the gateway, in matching order."""

LARGEST_BODY_BYTES = 160 << 20
"""The size of a context directory of 95 MiB in base64, with room for a configuration."""

LARGEST_OPEN_BYTES = 1 << 16
"""Maximum size of a request without a login."""

ANYBODY = Actor(user="anybody", roles=frozenset())

_NOT_IMPLEMENTED = 501
"""The status for unsupported routes: for a 404, `det` of 0.23 does not print the server's message."""

_GRPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 9, 412: 9, 413: 8, 429: 8, _NOT_IMPLEMENTED: 12, 503: 14}
"""The gRPC code of an error, by its HTTP status."""

_REFUSED = frozenset({401, 403})

_STATUSES = {422: 400}
"""Determined's status, for each of tarmac's that differs."""

log = logging.getLogger(__name__)


Address = tuple[str, int | None]
"""The address of a listener: host and port, or the name of a unix socket."""


def at_addresses(addresses: Collection[Address], gateway: Gateway, *, otherwise: ASGIApp) -> ASGIApp:
    """An application that serves the gateway on these addresses, and another application on all others."""
    routes = [WebRoute(each.path, partial(_answer, gateway, each), methods=[each.method]) for each in ROUTES]
    handlers = dict.fromkeys((TarmacError, HTTPException, Exception), _error)
    inner = Starlette(routes=routes, exception_handlers=handlers)

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        async def audit(status: int) -> None:
            if CALLER in scope or status in _REFUSED:  # but not each report of a run
                await gateway.service.audit(scope, status)

        ours = tuple(scope.get("server") or ()) in addresses
        answer = send_after_record(send, scope, receive, audit) if ours else send
        await (inner if ours else otherwise)(scope, receive, answer)

    return choose


async def _answer(gateway: Gateway, route: Route, request: Request) -> Response:
    actor, attempt_id = await run_in_threadpool(_caller, gateway, route, request)
    try:
        body = await _body(request, LARGEST_OPEN_BYTES if route.access is Access.OPEN else LARGEST_BODY_BYTES)
    except ClientDisconnect:
        return Response(status_code=400)
    call = Call(gateway=gateway, actor=actor, attempt_id=attempt_id, request=request, body=body)
    if inspect.iscoroutinefunction(route.handler):
        found = await route.handler(call)
    else:
        found = await run_in_threadpool(route.handler, call)
    return found if isinstance(found, Response) else JsonAnswer({} if found is None else found)


def _caller(gateway: Gateway, route: Route, request: Request) -> tuple[Actor, str | None]:
    """The caller, and the attempt if its code calls.

    Raises Unauthorized if the route does not admit it, and Forbidden if its roles or scopes do not.
    """
    token = bearer(request)
    refusal = Unauthorized("you are not logged in, or your session is over", hint="det user login NAME")
    try:
        if (caller := caller_of(gateway, token)) is not None:
            request.scope[CALLER] = caller
            check(caller.actor, route.needs)
            return caller.actor, None
    except Unauthorized as error:
        refusal = error
    task = bearer(request, "grpc-metadata-x-allocation-token") or token
    claim = gateway.tokens.read(task, now=gateway.service.clock.now())
    if claim is not None and claim.kind is TokenKind.ALLOCATION and route.access is not Access.USER:
        check_attempt(gateway, claim.subject)
        return code_of(gateway, claim.owner), claim.subject
    if route.access is Access.OPEN:
        return ANYBODY, None
    raise refusal


async def _body(request: Request, limit_bytes: int) -> Any:
    """The JSON of the body; {} if it is empty. Raises TooLarge before it exceeds the limit."""
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > limit_bytes:
            raise TooLarge(
                f"the request is larger than {limit_bytes >> 20} MiB",
                hint="leave out of the context directory what the code does not need, in .detignore",
            )
    try:
        return await run_in_threadpool(json.loads, bytes(found)) if found.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the request is not JSON: {error}") from None


def _error(request: Request, error: Exception) -> JsonAnswer:
    """An error in the form printed by Determined's clients."""
    if isinstance(error, TarmacError):
        message, status = str(error), _STATUSES.get(error.http_status, error.http_status)
    elif isinstance(error, HTTPException):
        line = f"{request.method} {request.url.path}"
        message, status = f"tarmac's gateway for Determined does not offer {line:.200}", _NOT_IMPLEMENTED
    else:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        message = f"tarmac itself failed ({type(error).__name__}): the mistake is not in your request"
        status = 500
    code = _GRPC_CODES.get(status, 2)
    content = {"error": {"code": code, "reason": "", "error": message}, "message": message, "code": code}
    return JsonAnswer(content, status_code=status)
