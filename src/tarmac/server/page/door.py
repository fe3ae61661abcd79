"""The way of a browser on this machine to the page: an address of the loopback, and links that admit once.

Made by `wiring`, used by the routes of pages. A server without an address of TCP listens on one from the
first `tarmac ui` on, also when it is started again: open tabs then find it. The session of such a browser is
derived from the token of the home, which only its owner can read, so it needs no account and no row.
"""

import hashlib
import hmac
import logging
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress

from tarmac.model.errors import TarmacError, Unauthorized
from tarmac.model.home import Home
from tarmac.model.ports import Clock
from tarmac.server.accounts.authenticator import Authenticator
from tarmac.server.http.listeners import listen_on_loopback, token_of
from tarmac.server.settings import AddressSettings

VALID_S = 60.0
"""How long a link admits a browser."""

log = logging.getLogger(__name__)


class Door:
    """Opens the page to browsers. Called from the event loop, except for `resume`."""

    def __init__(self, home: Home, callers: Authenticator, settings: AddressSettings, clock: Clock) -> None:
        self._home, self._callers, self._settings, self._clock = home, callers, settings, clock
        self._codes: dict[str, float] = {}
        self._address: str | None = None

    def resume(self) -> socket.socket | None:
        """Listen where an earlier server of this home did; None if none did, or the address is in use."""
        if self._settings.listen is not None:
            return None
        with suppress(FileNotFoundError):
            address = self._home.page.read_text().strip()
            try:
                return self._listener(address)
            except TarmacError as problem:
                log.warning("the page is not on its former address: %s", problem)
        return None

    def open(self, listen: Callable[[socket.socket], None]) -> tuple[str, float | None]:
        """The URL of the page, and until when it admits a browser as the owner of the home (None: by login).

        `listen` serves a new listener.
        """
        address = self._settings.listen
        if address is not None and (self._settings.tls or self._settings.tls_certificate):
            host, _, port = address.rpartition(":")
            return f"https://{(self._settings.tls_names or (host,))[0]}:{port}/", None
        if address is None and self._address is None:
            listen(self._listener(f"{_host(self._home)}:0"))
        self._callers.admit_page(self._session())
        now = self._clock.now()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        code = secrets.token_urlsafe(24)
        self._codes[code] = now + VALID_S
        return f"http://{address or self._address}/enter/{code}", now + VALID_S

    def enter(self, code: str) -> str:
        """The session of a browser with this link, which counts once. Raises Unauthorized."""
        until = self._codes.pop(code, 0.0)
        if until <= self._clock.now():
            raise Unauthorized("this link was used before, or is too old", hint="tarmac ui makes a new one")
        return self._session()

    def _listener(self, address: str) -> socket.socket:
        found = listen_on_loopback(address)
        host, port = found.getsockname()[:2]
        self._address = f"{host}:{port}"
        self._home.page.write_text(f"{self._address}\n")
        self._callers.admit_page(self._session())
        return found

    def _session(self) -> str:
        return hmac.new(token_of(self._home).encode(), b"the session of a page", hashlib.sha256).hexdigest()


def _host(home: Home) -> str:
    """A loopback address of the home's own: browsers send cookies to all ports of a host alike."""
    digest = hashlib.sha256(bytes(home.root)).digest()
    return f"127.{digest[0] % 254 + 1}.{digest[1]}.{digest[2] % 254 + 1}"
