"""Accepts connections with TLS, within the budget of connections over TCP from their first moment.

Called by `daemon`, beside the listeners that uvicorn itself serves.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Hashable
from typing import cast

import uvicorn

from tarmac.server.http.connections import LimitedProtocol
from tarmac.server.http.origins import network_of

_ACCEPT_PAUSE_S = 0.1

log = logging.getLogger(__name__)


class Handshake:
    """A connection before it speaks HTTP: its handshake of TLS has as much time as a head."""

    def __init__(self, peer: Hashable) -> None:
        self.peer = peer
        self._task = asyncio.current_task()

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()


class EncryptedListener:
    """A listener of a running uvicorn server, with TLS; the server closes it with its own ones.

    uvicorn's own listeners create a connection after its handshake: so they could not limit their number.
    """

    def __init__(self, server: uvicorn.Server, listener: socket.socket, context: ssl.SSLContext) -> None:
        self._server = server
        self._listener = listener
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._accepting = self._loop.create_task(self._accept())
        server.servers.append(cast(asyncio.Server, self))

    def close(self) -> None:
        """Accept no more connections."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()
        self._listener.close()

    async def wait_closed(self) -> None:
        """Return at once: the server waits for its connections."""

    async def _accept(self) -> None:
        while True:
            try:
                connection, address = await self._loop.sock_accept(self._listener)
            except OSError as problem:  # the peer left, or no file is free
                log.warning("a connection was not accepted: %s", problem.strerror)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            task = self._loop.create_task(self._begin(connection, network_of(address[0])))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _begin(self, connection: socket.socket, peer: str) -> None:
        handshake, config = Handshake(peer), self._server.config
        protocol = cast(type[LimitedProtocol], config.http_protocol_class)

        def make() -> LimitedProtocol:
            made = protocol(config, self._server.server_state, self._server.lifespan.state)
            made.handshake = handshake
            return made

        if not protocol.tcp.open(handshake):
            connection.close()
            return
        try:
            await self._loop.connect_accepted_socket(
                make, connection, ssl=self._context, ssl_handshake_timeout=protocol.limits.head_s
            )
        except OSError:  # it spoke no TLS, or not in time
            connection.close()
        finally:
            protocol.tcp.close(handshake)
