"""HTTP/1.1 over a connected socket: the part that the API, and a proxy in front of it, use.

Used by `transport`, `embedded` and `sessions`. `http.client` does more, but importing it (with mail
headers and TLS) takes longer than the rest of a short command of the CLI.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from io import BufferedReader

_LINE_BYTES = 65536
_MOST_HEADERS = 256
_READ_BYTES = 65536
_WITHOUT_BODY = frozenset({204, 304})


class Connection:
    """One request at a time, its answer read completely before the next. A break raises OSError."""

    def __init__(self, opened: socket.socket, host: str = "localhost") -> None:
        self.sock = opened
        self._host = host
        self._incoming = opened.makefile("rb")

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | Iterator[bytes] | None
    ) -> None:
        """Send a request. The headers give the length of a body that comes in pieces."""
        whole = body if isinstance(body, bytes) else b""
        sized = {"Content-Length": str(len(whole))} if method != "GET" else {}
        self._send_head(method, target, {**sized, **headers}, whole)
        if not isinstance(body, bytes):
            for piece in body or ():
                self.sock.sendall(piece)

    def begin(self, method: str, target: str, headers: Mapping[str, str], first: bytes) -> None:
        """Send a request whose body has no length: `first`, then the data of `send_more`."""
        self._send_head(method, target, {"Transfer-Encoding": "chunked", **headers}, _chunk(first))

    def send_more(self, data: bytes) -> None:
        """Send more of the body of such a request; not empty."""
        self.sock.sendall(_chunk(data))

    def _send_head(self, method: str, target: str, headers: Mapping[str, str], whole: bytes) -> None:
        fields = {"Host": self._host, "Accept-Encoding": "identity", **headers}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a request with a line break in its head")
        head = "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")
        self.sock.sendall(head + whole)

    def receive(self) -> Response:
        """The answer, as soon as its head has arrived."""
        response = Response(self._incoming)
        while response.status < 200:  # an interim response: the answer follows
            response = Response(self._incoming)
        return response

    def close(self) -> None:
        """Close the connection, even during a request."""
        self._incoming.close()
        self.sock.close()


class Response:
    """The head of an answer, and its body as it arrives. The names of headers are in lower case.

    `last`: the connection cannot be reused. `body` is empty until it was read.
    """

    body = b""

    def __init__(self, incoming: BufferedReader) -> None:
        self._incoming = incoming
        version, _, rest = self._line().partition(" ")
        if not version.startswith("HTTP/1."):
            raise ConnectionError("the server does not speak HTTP/1.1")
        self.status = _number(rest[:3], base=10)
        self.headers = dict(self._header_lines())
        length = self.headers.get("content-length")
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self._length = None if length is None else _number(length, base=10)
        if self.status < 200 or self.status in _WITHOUT_BODY:
            self._chunked, self._length = False, 0
        open_end = self._length is None and not self._chunked
        self.last = open_end or version == "HTTP/1.0" or self.headers.get("connection", "").lower() == "close"

    def read(self) -> bytes:
        """The whole body."""
        self.body = b"".join(self.pieces())
        return self.body

    def pieces(self) -> Iterator[bytes]:
        """The body in pieces, each as soon as it has arrived."""
        if self._chunked:
            while size_bytes := _number(self._line().partition(";")[0], base=16):
                yield from self._next(size_bytes)
                self._line()
            while self._line():  # trailing headers: none matters here
                pass
        elif self._length is not None:
            yield from self._next(self._length)
        else:
            while piece := self._incoming.read1(_READ_BYTES):
                yield piece

    def _next(self, size_bytes: int) -> Iterator[bytes]:
        while size_bytes:
            piece = self._incoming.read1(min(size_bytes, _READ_BYTES))
            if not piece:
                raise ConnectionError("the server broke off")
            size_bytes -= len(piece)
            yield piece

    def _header_lines(self) -> Iterator[tuple[str, str]]:
        for _ in range(_MOST_HEADERS):
            line = self._line()
            if not line:
                return
            name, _, value = line.partition(":")
            yield name.lower(), value.strip()
        raise ConnectionError("the server answers with more headers than are read")

    def _line(self) -> str:
        line = self._incoming.readline(_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise ConnectionError("the server broke off")
        return line.rstrip(b"\r\n").decode("latin-1")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _number(text: str, *, base: int) -> int:
    try:
        number = int(text.strip(), base)
    except ValueError:
        number = -1
    if number < 0:
        raise ConnectionError(f"the server's answer cannot be read: {text[:20]!r} is no number")
    return number
