"""A real S3 API server in a process of its own, behind a line that can be cut. For tests of artifact stores.

What the server holds stays while the line is cut: as when a store is out of reach for a while.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

BUCKET = "tarmac-test"
LIMIT_S = 120.0

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(slots=True)
class Line:
    """Connections to the server go through here. `cut_after_bytes`: cut it in the middle of an upload."""

    server_port: int
    port: int = 0
    address: str = "127.0.0.1"
    up: bool = True
    cut_after_bytes: int | None = None
    cuts: int = 0
    _open: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """What AWS_ENDPOINT_URL says."""
        return f"http://{self.address}:{self.port}"

    def cut(self) -> None:
        """From now on nobody reaches the server; what is on its way breaks off."""
        self.up = False
        with self._lock:
            self.cuts += 1
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """It can be reached again."""
        self.cut_after_bytes = None
        self.up = True

    def serve(self, listener: socket.socket) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if not self.up:
                client.close()
                continue
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.server_port))
        except OSError:
            client.close()
            return
        with client, server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a piece waits for no other
            ends = {client: server, server: client}
            with self._lock:
                self._open |= set(ends)
            try:
                while self.up:
                    for end in select.select(list(ends), [], [], 0.2)[0]:
                        data = end.recv(65536)
                        if not data:
                            return
                        ends[end].sendall(data)
                        if end is client:
                            self._count(len(data))
            except OSError:
                return
            finally:
                with self._lock:
                    self._open -= set(ends)

    def _count(self, sent: int) -> None:
        if self.cut_after_bytes is not None:
            self.cut_after_bytes -= sent
            if self.cut_after_bytes <= 0:
                self.cut_after_bytes = None
                self.cut()


@contextmanager
def s3_server(address: str = "127.0.0.1") -> Iterator[Line]:
    """A server with an empty bucket, and the line to it from an address of this machine."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**os.environ, **CREDENTIALS}, **quiet)  # type: ignore[call-overload]
    listener = socket.create_server((address, 0))
    try:
        _wait_for(port, process)
        line = Line(port, listener.getsockname()[1], address)
        threading.Thread(target=line.serve, args=(listener,), daemon=True).start()
        _make_bucket(port)
        yield line
    finally:
        listener.close()
        process.kill()
        process.wait()


def _make_bucket(port: int) -> None:
    heads = ("Host: 127.0.0.1", "Content-Length: 0", "Connection: close")
    request = "\r\n".join((f"PUT /{BUCKET} HTTP/1.1", *heads, "", ""))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request.encode())
        answer = connection.recv(4096)
    assert b" 200 " in answer, answer


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        select.select([], [], [], 0.05)
    raise AssertionError("the S3 server does not start")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
