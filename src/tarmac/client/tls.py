"""TLS of the client: verifies the certificate of a server, and explains a refusal. Used by `transport`."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

from tarmac.model.errors import InvalidInput, TarmacError, Unavailable

HANDSHAKE_LIMIT_S = 30.0

_HINTS = {
    10: "the administrator of the server renews it; or the clock of this machine is wrong",
    62: "its certificate is for other names: check the address",
    64: "its certificate is for other names: check the address",
}
"""By OpenSSL's numbers: a certificate has expired, is for other host names, or for other addresses."""


class SharedSocket(ssl.SSLSocket):
    """A connection that one thread may read while another writes, as a session does.

    OpenSSL allows one call at a time. So the socket does not block, and a thread waits outside the lock.
    """

    _turn: Lock | None = None
    _limit_s: float | None = None

    def share(self) -> None:
        """Begin to serve two threads, after the handshake."""
        super().settimeout(0)
        self._turn = Lock()

    def settimeout(self, value: float | None) -> None:
        if self._turn is None:
            super().settimeout(value)
        self._limit_s = value

    def read(self, *args: Any) -> Any:
        return self._in_turn(partial(super().read, *args))

    def send(self, *args: Any) -> Any:
        return self._in_turn(partial(super().send, *args))

    def _in_turn(self, act: Callable[[], Any]) -> Any:
        if self._turn is None:
            return act()
        while True:
            try:
                with self._turn:
                    return act()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as full:
                event = select.POLLIN if isinstance(full, ssl.SSLWantReadError) else select.POLLOUT
            poll = select.poll()
            poll.register(self, event)
            if not poll.poll(None if self._limit_s is None else self._limit_s * 1000):
                raise TimeoutError("the connection is silent")


def guarded(opened: socket.socket, host: str, authority: str | None) -> socket.socket:
    """The connection inside TLS, after the server's certificate is verified.

    Raises InvalidInput for a file of authorities that cannot be used, and OSError for any other problem.
    """
    try:
        opened.settimeout(HANDSHAKE_LIMIT_S)
        encrypted = _context(authority).wrap_socket(opened, server_hostname=host)
    except BaseException:
        opened.close()
        raise
    assert isinstance(encrypted, SharedSocket)
    encrypted.share()
    return encrypted


def explain(problem: OSError, address: str, authority: str | None) -> TarmacError:
    """The error for a connection that did not come about."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        named = f", which now names {authority}," if authority else ""
        unknown = (
            f"set TARMAC_CA{named} to the file of the server's authority: a lab's own is printed by `tarmac "
        )
        hint = _HINTS.get(problem.verify_code, f"{unknown}server ca` on its machine (tls/ca.pem in its home)")
        reason = f"the certificate of the server at {address} is not trusted: {problem.verify_message}"
        return Unavailable(reason, hint=hint)
    if isinstance(problem, ssl.SSLError) and problem.reason == "WRONG_VERSION_NUMBER":
        return Unavailable(f"the server at {address} does not use TLS", hint="its URL begins with http://")
    return Unavailable(f"the server at {address} cannot be reached: {problem}")


def _context(authority: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as problem:
        reason = (
            "it has no certificate in PEM form" if isinstance(problem, ssl.SSLError) else problem.strerror
        )
        raise InvalidInput(f"TARMAC_CA: {authority} cannot be used: {reason}") from problem
    context.sslsocket_class = SharedSocket
    return context
