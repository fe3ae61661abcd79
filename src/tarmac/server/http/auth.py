"""The outermost layer of the server: identifies the caller, counts answers, and adds the server's version.

It wraps the whole application, so no route is reachable without it. A request over the unix socket of the
home comes from its owner; every other request needs the token.
"""

import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarmac.api.operation import BASE
from tarmac.model.actor import Actor
from tarmac.model.errors import TarmacError, Unauthorized
from tarmac.server.http.answers import response, send_after_record


class RequestCounts:
    """The numbers of answered requests, by method and status. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def note(self, method: str, status: int) -> None:
        """Count an answer; all unknown methods have the same label."""
        with self._lock:
            self._counts[method if method in _METHODS else "other", str(status)] += 1

    def counts(self) -> Mapping[tuple[str, ...], int]:
        """A copy of the counts."""
        with self._lock:
            return dict(self._counts)


CALLER = "tarmac.caller"
"""The key in the scope of an admitted request for its `Caller`."""

RENEW = "tarmac.renew"
"""The key in the scope of a request for what identifies its caller anew, in a long answer."""

PEER_UID = "tarmac.peer_uid"
"""The key in the scope of a request for the user id of the process that sent it over a unix socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request. `local`: over the unix socket, so from a user's shell on this machine.

    `token` is the id of the token that it showed.
    """

    actor: Actor
    local: bool
    token: str | None = None


class FindsCallers(Protocol):
    """Finds out who sends a request; raises Unauthorized."""

    def local(self, uid: int | None) -> Caller:
        """The user of a process on this machine."""

    def bearer(self, text: str, *, loopback: bool, cookie: bool = False) -> Caller:
        """The owner of a token, from this machine or another one; `cookie`: of the session of a browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Grants access: to users of this machine over `socket_name`, to others by `token` (None: no access).

    `owner` is the user who owns the server.
    """

    owner: str
    socket_name: str
    token: str | None = None


Audit = Callable[[Scope, int], Awaitable[None]]
"""Records a request with the status of its answer, which waits for it. Raises Unavailable."""


async def no_audit(_scope: Scope, _status: int) -> None:
    """Records nothing."""


class AuthMiddleware:
    """The application behind its access rules."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        socket_name: str,
        callers: FindsCallers,
        version: str,
        requests: RequestCounts | None = None,
        audit: Audit = no_audit,
    ) -> None:
        """`audit` stores each request and its status before the answer."""
        self._requests, self._audit = requests or RequestCounts(), audit
        self._app = app
        self._socket_name, self._callers = socket_name, callers
        self._version = (b"tarmac-version", version.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), self._version]
                self._requests.note(scope.get("method", ""), message["status"])
            await send(message)

        answer = send_after_record(send_with_version, scope, receive, partial(self._audit, scope))
        scope[RENEW] = partial(self._caller, scope)
        try:
            scope[CALLER] = await self._caller(scope)
        except TarmacError as error:
            if not _open_to_all(scope):
                await response(error)(scope, receive, answer)
                return
        await self._app(scope, receive, answer)

    async def _caller(self, scope: Scope) -> Caller:
        """The caller. Raises Unauthorized, and Unavailable if accounts cannot be read."""
        if scope["type"] != "http":
            raise Unauthorized("this server answers HTTP alone")
        if tuple(scope.get("server") or ()) == (self._socket_name, None):
            uid = scope.get(PEER_UID)
            if uid in _KNOWN:
                return self._callers.local(uid)
            return await run_in_threadpool(self._callers.local, uid)
        headers = Headers(scope=scope)
        kind, _, text = headers.get("authorization", "").partition(" ")
        if not kind and (session := cookie_parser(headers.get("cookie", "")).get(SESSION_COOKIE)):
            bearer = partial(self._callers.bearer, loopback=_from_here(scope), cookie=True)
            return await run_in_threadpool(bearer, session)
        if kind.lower() != "bearer":
            text = ""
        return await run_in_threadpool(self._callers.bearer, text, loopback=_from_here(scope))


_KNOWN = frozenset({None, 0, os.getuid()})
"""The users whose rights need no look at the accounts."""

OPEN_PATHS = frozenset({"/healthz", "/metrics"})
"""Paths that programs of the same machine may read without a token: they show numbers but no run names."""

SESSION_COOKIE = "__Host-tarmac"
"""The cookie of a browser's session: it is sent to this host alone, over TLS, and hidden from scripts."""

LOGIN_PATHS = frozenset(
    f"{BASE}/{path}" for path in ("login", "login/sso", "login/sso/token", "session", "page")
)
"""Paths that give a token to users without one."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"})


def _open_to_all(scope: Scope) -> bool:
    """Whether a request without an account is for `LOGIN_PATHS`, or for `OPEN_PATHS` from this machine."""
    if scope["type"] != "http":
        return False
    if scope["path"] in LOGIN_PATHS or is_page(scope):
        return True
    forwarded = any(name.lower() in _FORWARDED for name, _ in scope["headers"])
    return scope["method"] == "GET" and scope["path"] in OPEN_PATHS and _from_here(scope) and not forwarded


def is_page(scope: Scope) -> bool:
    """Whether a request is for a page or a file of it: they hold nothing that belongs to a user."""
    path = scope["path"]
    return scope["method"] == "GET" and not path.startswith("/api/") and path not in OPEN_PATHS


def _from_here(scope: Scope) -> bool:
    """Whether the connection over TCP, if not its first sender, is from this machine."""
    address = (scope.get("client") or ("", 0))[0]
    return address.startswith("127.") or address == "::1"
