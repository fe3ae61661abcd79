"""Requests to a server: connections that are kept and reused, for any address; and the errors in answers.

Used by the client alone.
"""

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from tarmac.api.operation import BASE
from tarmac.api.server import Error, ErrorForm
from tarmac.client.embedded import EmbeddedServer
from tarmac.client.http1 import Connection, Response
from tarmac.model import errors
from tarmac.model.errors import InvalidInput, NeverFits, TarmacError, Unavailable

EVENT_STREAM = "text/event-stream"

ANSWER_LIMIT_S = 120.0
"""Time limit for an answer; a server that is just starting takes a few seconds."""

SILENCE_S = 45.0
"""How long a stream may stay silent (three missed keep-alive comments) before it counts as broken."""


class Pieces(Struct, frozen=True, kw_only=True):
    """A body that is generated while it is sent, from the beginning each time."""

    size_bytes: int
    begin: Callable[[], Iterator[bytes]]


Body = bytes | Pieces


class TcpAddress(Struct, frozen=True, kw_only=True):
    """A server behind a URL. `authority`: the file of the only trusted authorities, if not the system's."""

    host: str
    port: int
    tls: bool
    headers: Mapping[str, str]
    authority: str | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self, *, start: bool) -> Connection:  # noqa: ARG002 - nothing to start behind a URL
        opened = socket.create_connection((self.host, self.port))
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(self._guarded(opened) if self.tls else opened, str(self))

    def await_answer(self, opened: socket.socket, *, limit_s: float) -> None:
        """Return at once: a server elsewhere cannot be checked, and the socket waits by itself."""

    def explain(self, problem: OSError) -> TarmacError:
        if self.tls:
            from tarmac.client.tls import explain  # takes long to import, and few need it

            return explain(problem, str(self), self.authority)
        hint = None
        if isinstance(problem, ConnectionError) and not isinstance(problem, ConnectionRefusedError):
            hint = "the URL of a server with TLS begins with https://"
        return Unavailable(f"the server at {self} cannot be reached: {problem}", hint=hint)

    def _guarded(self, opened: socket.socket) -> socket.socket:
        """The connection inside TLS, after the server's certificate is verified."""
        from tarmac.client.tls import guarded

        return guarded(opened, self.host, self.authority)


def tcp_address(url: str, *, token: str | None, authority: str | None = None) -> TcpAddress:
    """The address that a URL such as http://127.0.0.1:8400 names."""
    from urllib.parse import urlsplit  # takes as long as a request to the user's own server

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{url!r} is not the URL of a server", hint="such as http://127.0.0.1:8400")
    tls = parts.scheme == "https"
    return TcpAddress(
        host=parts.hostname,
        port=parts.port or (443 if tls else 80),
        tls=tls,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        authority=authority,
    )


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine only, without asking a name server."""
    name = tcp_address(url, token=None).host
    try:
        return name in ("localhost", "::1") or socket.inet_aton(name)[0] == 127
    except OSError:
        return False


def keep_alive(opened: socket.socket) -> None:
    """Let the kernel detect within a minute that the other machine is gone, even while no data is sent."""
    if opened.family in (socket.AF_INET, socket.AF_INET6):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


Address = EmbeddedServer | TcpAddress
"""Where a server is: connects, waits for an answer, explains a break; each request has its `headers`."""


class Transport:
    """Requests to one server. Safe to use from several threads: idle connections are kept in a list.

    `remote`: the server may be on another machine, and does not see the files of this one. `on_answer` is
    called with each answer to a request, also with an error.
    """

    def __init__(self, address: Address, *, start: bool = True) -> None:
        self.remote = isinstance(address, TcpAddress)
        self._address = address
        self._start = start
        self._idle: list[Connection] = []
        self.on_answer: Callable[[Response], None] = _nothing

    def request(self, method: str, path: str, *, body: Body | None = None) -> Response:
        """Send a request and read the answer; raises the error in the answer.

        If the connection breaks, the request is sent once more, on a new one. Every request of the API may be
        repeated: submissions carry an idempotency key, all others name the target state.
        """
        while self._idle:  # drops connections that the server has closed meanwhile
            with suppress(OSError):
                return self._exchange(self._idle.pop(), method, path, body)
        with suppress(OSError):
            return self._exchange(self._address.connect(start=self._start), method, path, body)
        try:
            return self._exchange(self._address.connect(start=self._start), method, path, body)
        except OSError as problem:
            raise self._address.explain(problem) from problem

    def open(self) -> None:
        """Connect before the first request: a server that has to be started loads in the meantime.

        That request reports any error.
        """
        with suppress(OSError):
            self._idle.append(self._address.connect(start=self._start))

    @contextmanager
    def stream(
        self, path: str, *, headers: Mapping[str, str], start: bool = True, deadline: float | None = None
    ) -> Iterator[Iterator[bytes]]:
        """The pieces of an event stream as they arrive, on a connection of its own.

        Raises OSError if the stream breaks (TimeoutError at `deadline`, a reading of `time.monotonic`), and
        the server's error if it refuses.
        """
        connection = self._address.connect(start=start and self._start)
        connection.sock.settimeout(SILENCE_S)
        try:
            response = self._send(connection, "GET", path, None, {"Accept": EVENT_STREAM, **headers})
            if response.status != 200:
                raise failure(response.status, response.read())
            yield _until(deadline, response.pieces(), connection.sock)
        finally:
            connection.close()

    def open_stream(self, path: str, first: bytes) -> tuple[Connection, Response]:
        """Open a request whose body and answer are streams, on a connection that the caller closes.

        Raises the error in the answer. The request is never sent twice.
        """
        try:
            connection = self._address.connect(start=self._start)
        except OSError as problem:
            raise self._address.explain(problem) from problem
        try:
            keep_alive(connection.sock)
            connection.sock.settimeout(ANSWER_LIMIT_S)
            connection.begin("POST", f"{BASE}{path}", self._address.headers, first)
            self._address.await_answer(connection.sock, limit_s=ANSWER_LIMIT_S)
            response = connection.receive()
            if response.status >= 400:
                raise failure(response.status, response.read())
        except OSError as problem:
            connection.close()
            raise Unavailable(f"the server broke off: {problem}") from problem
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(SILENCE_S)
        return connection, response

    def close(self) -> None:
        """Close the kept connections."""
        while self._idle:
            self._idle.pop().close()

    def _exchange(self, connection: Connection, method: str, path: str, body: Body | None) -> Response:
        connection.sock.settimeout(ANSWER_LIMIT_S)
        try:
            response = self._send(connection, method, path, body, {})
            response.read()
        except BaseException:
            connection.close()
            raise
        if response.last:
            connection.close()
        else:
            self._idle.append(connection)
        self.on_answer(response)
        if response.status >= 400:
            raise failure(response.status, response.body)
        return response

    def _send(
        self, connection: Connection, method: str, path: str, body: Body | None, headers: Mapping[str, str]
    ) -> Response:
        content: dict[str, str] = {}
        if isinstance(body, Pieces):
            content = {"Content-Type": "application/octet-stream", "Content-Length": str(body.size_bytes)}
        elif body is not None:
            content = {"Content-Type": "application/json"}
        connection.send(
            method,
            f"{BASE}{path}",
            {**self._address.headers, **content, **headers},
            body.begin() if isinstance(body, Pieces) else body,
        )
        self._address.await_answer(connection.sock, limit_s=ANSWER_LIMIT_S)
        return connection.receive()


def _nothing(_response: Response) -> None:
    """The reaction to an answer, unless there is another."""


def _until(deadline: float | None, pieces: Iterator[bytes], opened: socket.socket) -> Iterator[bytes]:
    """The pieces that arrive before the deadline; then TimeoutError."""
    while True:
        if deadline is not None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            opened.settimeout(min(left_s, SILENCE_S))
        piece = next(pieces, None)
        if piece is None:
            return
        yield piece


_CLASSES: Mapping[str, type[TarmacError]] = {
    kind.code: kind
    for kind in (
        *(errors.NotFound, errors.Refused, errors.IsExperiment, errors.TooLarge),
        *(errors.Unauthorized, errors.Forbidden, errors.Unavailable, errors.StorageFull),
        *(errors.Misdirected, errors.TooManyRequests),
    )
}


def failure(status: int, body: bytes) -> TarmacError:
    """The error in an answer with this status and body."""
    try:
        error = error_of(msgspec.json.decode(body, type=Error).error)
    except (ValueError, msgspec.MsgspecError):
        return TarmacError(
            f"the server answered with status {status} and no explanation",
            hint="is this the address of a tarmac server?",
        )
    error.http_status = status
    return error


def error_of(form: ErrorForm) -> TarmacError:
    """The error in the form that answers have."""
    if form.code == InvalidInput.code:
        return InvalidInput(tuple(form.problems) or form.message, hint=form.hint)
    if form.code == NeverFits.code:
        return NeverFits(form.message, hint=form.hint, reasons=[problem.message for problem in form.problems])
    error = _CLASSES.get(form.code, TarmacError)(form.message, hint=form.hint)
    error.code = form.code
    error.exit_code = form.exit_code
    return error
