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
from collections.abc import Iterator

import uvicorn
import uvloop
from starlette.types import ASGIApp

from tarmac.model.codec import replace
from tarmac.model.home import Home
from tarmac.server.app import build, checked
from tarmac.server.http.auth import Access
from tarmac.server.http.connections import limited, usual_limits
from tarmac.server.http.encrypted import LimitedListener
from tarmac.server.http.listeners import listen_on, listen_on_home, listen_on_loopback, token_of
from tarmac.server.http.rates import Rates
from tarmac.server.http.tls import Tls, check_accounts
from tarmac.server.settings import AddressSettings, Settings
from tarmac.server.wiring import Parts, join
from tarmac.systems.gateways import serve_gateway

KEEP_ALIVE_S = 75
FAREWELL_S = 2
"""Maximum time for open answers after a stop; streams end at once."""

HOME_BACKLOG = 128
"""Maximum pending connections to the home's socket. A further one waits in its own process."""

SWITCH_S = 0.001
"""Maximum time that a busy thread blocks the event loop: a fifth of Python's default."""

COLLECT_AFTER = 20_000
"""New objects after which garbage is looked for: a run makes a few thousand, few of them in cycles."""

log = logging.getLogger(__name__)


def serve(
    home: Home, settings: Settings, home_listener: socket.socket, *, tls: Tls | None, take_over: bool
) -> None:
    """Serve until a stop request. Raises TarmacError if the parts cannot be joined; see `wiring.join`."""
    listeners = [home_listener]
    encrypted = None
    token = token_of(home) if settings.server.listen is not None else None
    access = Access(owner=getpass.getuser(), socket_name=str(home_listener.getsockname()), token=token)
    gateway: tuple[str, int] | None = None
    if settings.systems.listen is not None:
        listeners += [listen_on_home(home.gateway), listen_on_loopback(settings.systems.listen)]
        host, port = listeners[-1].getsockname()[:2]
        gateway = host, port
        settings = replace(settings, systems=settings.systems.at(f"[{host}]:{port}"))
    parts = join(home, settings, access, take_over=take_over)
    try:
        if settings.server.listen is not None:
            check_accounts(settings.server.listen, accounts_exist=parts.service.accounts.exist)
            listeners.append(listen_on(settings.server.listen))
            encrypted = (listeners.pop(), tls) if tls is not None else None
        server = Server(
            parts, home, access=access, gateway=gateway, address=settings.server, encrypted=encrypted
        )
        uvloop.run(server.serve(sockets=listeners))
    finally:
        for path in (home.socket, home.gateway):
            path.unlink(missing_ok=True)
        parts.close()
        log.info("stopped")


class Server(uvicorn.Server):
    """uvicorn, except for signals: a stop ends the streams first."""

    def __init__(
        self,
        parts: Parts,
        home: Home,
        *,
        access: Access,
        gateway: tuple[str, int] | None,
        address: AddressSettings,
        encrypted: tuple[socket.socket, Tls] | None,
    ) -> None:
        self._parts = parts
        self._encrypted = encrypted
        self._loop: asyncio.AbstractEventLoop | None = None
        rates = Rates(requests_per_minute=address.requests_per_minute)
        self._service = dataclasses.replace(parts.service, stop=self.stop, listen=self.listen, rates=rates)
        app: ASGIApp = build(self._service, home=home, access=access)
        if gateway is not None:
            app = serve_gateway(app, self._service, parts.store, access=access, home=home, address=gateway)
        app = checked(app, address, rates, audit=self._service.audit)
        super().__init__(_config(app))

    def stop(self) -> None:
        """End the streams and then the server. From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_in_loop)

    def listen(self, listener: socket.socket) -> None:
        """Serve a listener of the loopback from now on. In the event loop."""
        LimitedListener(self, listener, None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._service.changes.attach(self._loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop_in_loop)
        self._service.plane.control.scheduler_state.snapshot()  # reads all live runs
        self._parts.start(stop=self.stop)
        sys.setswitchinterval(SWITCH_S)
        gc.freeze()  # all loaded objects stay: the collector need not visit them again
        gc.set_threshold(COLLECT_AFTER)
        gc.enable()
        log.info("serving %s as process %d", self._service.home.root, self._service.pid)
        await super().startup(sockets)
        if self._encrypted is not None:
            listener, tls = self._encrypted
            LimitedListener(self, listener, tls.context)
            self._loop.add_signal_handler(signal.SIGHUP, tls.renew)
            self._renewal = self._loop.create_task(tls.renew_daily())
        if (page := self._service.door.resume()) is not None:
            self.listen(page)
        if sockets:
            sockets[0].listen(HOME_BACKLOG)  # uvicorn has one value for all sockets

    def _stop_in_loop(self) -> None:
        self._service.changes.stop()
        self.should_exit = True

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
