"""Runs a server from start to end: joins the parts, serves the sockets, closes all. Called by `__main__`."""

import asyncio
import contextlib
import dataclasses
import gc
import getpass
import logging
import signal
import socket
import sys
from collections.abc import Iterator, Sequence

import uvicorn
import uvloop
from starlette.types import ASGIApp

from tarmac.model.codec import replace
from tarmac.model.home import Home
from tarmac.server.app import build
from tarmac.server.http.auth import Access
from tarmac.server.http.connections import limited, usual_limits
from tarmac.server.http.listeners import listen_on_home, listen_on_loopback, token_of
from tarmac.server.settings import Settings
from tarmac.server.wiring import Parts, join
from tarmac.systems.gateways import serve_gateway

KEEP_ALIVE_S = 75
FAREWELL_S = 2
"""Maximum time for open answers after a stop; streams end at once."""

HOME_BACKLOG = 128
"""Maximum pending connections to the home's socket. A further one waits in its own process."""

SWITCH_S = 0.001
"""Maximum time that a busy thread blocks the event loop: a fifth of Python's default."""

log = logging.getLogger(__name__)


def serve(home: Home, settings: Settings, home_listener: socket.socket, *, take_over: bool = False) -> None:
    """Serve until a stop request. Raises TarmacError if the parts cannot be joined; see `wiring.join`."""
    listeners = [home_listener]
    token = None
    if settings.server.listen is not None:
        listeners.append(listen_on_loopback(settings.server.listen))
        token = token_of(home)
    access = Access(owner=getpass.getuser(), socket_name=str(home_listener.getsockname()), token=token)
    gateway: tuple[str, int] | None = None
    if settings.systems.listen is not None:
        listeners += [listen_on_home(home.gateway), listen_on_loopback(settings.systems.listen)]
        host, port = listeners[-1].getsockname()[:2]
        gateway = host, port
        settings = replace(settings, systems=settings.systems.at(f"[{host}]:{port}"))
    parts = join(home, settings, take_over=take_over)
    try:
        uvloop.run(_serve(parts, home, access=access, listeners=listeners, gateway=gateway))
    finally:
        for path in (home.socket, home.gateway):
            path.unlink(missing_ok=True)
        parts.close()
        log.info("stopped")


async def _serve(
    parts: Parts,
    home: Home,
    *,
    access: Access,
    listeners: Sequence[socket.socket],
    gateway: tuple[str, int] | None,
) -> None:
    loop = asyncio.get_running_loop()
    server: Server | None = None

    def stop() -> None:
        """End the streams and then the server. From any thread."""
        loop.call_soon_threadsafe(_stop_in_loop)

    def _stop_in_loop() -> None:
        service.changes.stop()
        if server is not None:
            server.should_exit = True

    service = dataclasses.replace(parts.service, stop=stop)
    service.changes.attach(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_in_loop)
    app: ASGIApp = build(service, home=home, access=access)
    if gateway is not None:
        app = serve_gateway(app, service, parts.store, access=access, home=home, address=gateway)
    server = Server(_config(app))
    parts.start(stop=stop)
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()  # all loaded objects stay: the collector need not visit them again
    gc.enable()
    log.info("serving %s as process %d", home.root, service.pid)
    await server.serve(sockets=list(listeners))


class Server(uvicorn.Server):
    """uvicorn, except for signals: a stop ends the streams first."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets:
            sockets[0].listen(HOME_BACKLOG)  # uvicorn has one value for all sockets

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=limited(usual_limits()),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # headers must not set the client's identity
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=FAREWELL_S,
    )
