"""The outermost layer of the server: identifies the caller, counts answers, and adds the server's version.

It wraps the whole application, so no route is reachable without it. A request over the unix socket of the
home comes from its owner; every other request needs the token.
"""

import hmac
import os
import pwd
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Unauthorized
from tarmac.server.http.answers import response


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


API_USER = "api"
"""The user of requests with the token."""

_TOKEN_HINT = (
    "set TARMAC_TOKEN to the content of the file `token` in the server's home; "
    "a program sends the header Authorization: Bearer TOKEN"
)

CALLER = "tarmac.caller"
"""The key in the scope of an admitted request for its `Caller`."""

PEER_UID = "tarmac.peer_uid"
"""The key in the scope of a request for the user id of the process that sent it over a unix socket."""

_ADMIN, _MEMBER = frozenset({ActorRole.ADMIN}), frozenset({ActorRole.MEMBER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request. `local`: over the unix socket, so from a user's shell on this machine."""

    actor: Actor
    local: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Grants access: to users of this machine over `socket_name`, to others by `token` (None: no access).

    `owner` is the user who owns the server.
    """

    owner: str
    socket_name: str
    token: str | None = None


class AuthMiddleware:
    """The application behind its access rules."""

    def __init__(
        self, app: ASGIApp, *, access: Access, version: str, requests: RequestCounts | None = None
    ) -> None:
        self._requests = requests or RequestCounts()
        self._app = app
        self._access = access
        self._version = (b"tarmac-version", version.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), self._version]
                self._requests.note(scope.get("method", ""), message["status"])
            await send(message)

        caller = self._caller(scope)
        if caller is None and _open_to_all(scope):
            await self._app(scope, receive, send_with_version)
            return
        if caller is None:
            refusal = response(Unauthorized("this server wants its token", hint=_TOKEN_HINT))
            await refusal(scope, receive, send_with_version)
            return
        scope[CALLER] = caller
        await self._app(scope, receive, send_with_version)

    def _caller(self, scope: Scope) -> Caller | None:
        """The caller, if access is granted, else None."""
        if scope["type"] != "http":
            return None
        if tuple(scope.get("server") or ()) == (self._access.socket_name, None):
            return Caller(actor=self._local_actor(scope.get(PEER_UID)), local=True)
        header = Headers(scope=scope).get("authorization", "")
        token = self._access.token
        if token and hmac.compare_digest(header.encode(), f"Bearer {token}".encode()):
            return Caller(actor=Actor(user=API_USER, roles=_ADMIN), local=False)
        return None

    def _local_actor(self, uid: int | None) -> Actor:
        """The user of the peer process; the owner of the home and root are admins."""
        if uid is None or uid == os.getuid():
            return Actor(user=self._access.owner, roles=_ADMIN)
        return Actor(user=user_name(uid), roles=_ADMIN if uid == 0 else _MEMBER)


OPEN_PATHS = frozenset({"/healthz", "/metrics"})
"""Paths that programs of the same machine may read without a token: they show numbers but no run names."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"})


def _open_to_all(scope: Scope) -> bool:
    """Whether a request for `OPEN_PATHS` comes from this machine, and not through a proxy."""
    if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] not in OPEN_PATHS:
        return False
    address = (scope.get("client") or ("", 0))[0]
    local = address.startswith("127.") or address == "::1"
    return local and not any(name.lower() in _FORWARDED for name, _ in scope["headers"])


def user_name(uid: int) -> str:
    """The name of a user of this machine; the number if the user has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
