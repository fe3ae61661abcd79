"""Accepts connections, with TLS or on the loopback, within the budget of connections over TCP.

A connection counts from its first moment.

Called by `daemon`, beside the listeners that uvicorn itself serves.
"""

import asyncio
import logging
import socket
import ssl
from typing import cast

import uvicorn

from tarmac.server.http.connections import LimitedProtocol
from tarmac.server.http.origins import network_of

_ACCEPT_PAUSE_S = 0.1

log = logging.getLogger(__name__)


class LimitedListener:
    """A listener of a running uvicorn server, which closes it with its own ones. `context`: with TLS.

    uvicorn's own listeners create a connection after its handshake: so they could not limit their number.
    """

    def __init__(
        self, server: uvicorn.Server, listener: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        self._server, self._listener, self._context = server, listener, context
        self._loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._tasks = {self._loop.create_task(self._accept())}
        server.servers.append(cast(asyncio.Server, self))

    def close(self) -> None:
        """Accept no more connections."""
        for task in self._tasks:
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
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, connection: socket.socket, peer: str) -> None:
        """The handshake, for which a peer has as much time as for a head."""
        config, state = self._server.config, self._server.server_state
        made = cast(type[LimitedProtocol], config.http_protocol_class)(
            config, state, self._server.lifespan.state
        )
        made.peer, made.handshake = peer, asyncio.current_task()
        if not made.tcp.open(made):
            connection.close()
            return
        try:
            limit_s = made.limits.head_s if self._context is not None else None
            await self._loop.connect_accepted_socket(
                lambda: made, connection, ssl=self._context, ssl_handshake_timeout=limit_s
            )
        except OSError:  # it spoke no TLS, or not in time
            connection.close()
        finally:
            if made.handshake is not None:
                made.tcp.close(made)
