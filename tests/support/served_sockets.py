"""The sockets of a served control plane: one with TLS, and one for a member alone. Used by `served`."""

from __future__ import annotations

import socket
import ssl

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from actors import member
from tarmac.server.http.auth import CALLER, Caller
from tarmac.server.http.encrypted import LimitedListener


class TlsServer(uvicorn.Server):
    """uvicorn, with a listener of TLS if it is given one."""

    encrypted: tuple[socket.socket, ssl.SSLContext] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.encrypted is not None:
            LimitedListener(self, *self.encrypted)


def for_members(app: ASGIApp, address: tuple[str, int], user: str, *, otherwise: ASGIApp) -> ASGIApp:
    """The application, where every request to this address is one of a member."""

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        if tuple(scope.get("server") or ()) != address:
            await otherwise(scope, receive, send)
            return
        scope[CALLER] = Caller(actor=member(user), local=False)
        await app(scope, receive, send)

    return choose
