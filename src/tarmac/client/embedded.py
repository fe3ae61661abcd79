"""The user's own server: found under the tarmac home, started on demand, outliving the command.

Used by the client without TARMAC_URL. Several clients may start one at once: a lock decides which server
stays.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.client.http1 import Connection
from tarmac.model.errors import TarmacError, Unavailable
from tarmac.model.home import ALREADY_SERVED, SOCKET, Home
from tarmac.node.kernel import sockets

if TYPE_CHECKING:
    from tarmac.client.starting import StartedServer

START_LIMIT_S = 30.0
_END_LIMIT_S = 10.0
"""Time limit for a failed server to end, so that its last words can be read."""
_GLANCE_S = 0.01
_PATIENCE_S = 2.0
"""Interval between checks of the server's state while an answer is awaited."""


class EmbeddedServer:
    """The address of a home's own server. Only the user has access to the home, so no token is needed.

    `options` are passed to a server that is started.
    """

    def __init__(self, directory: str, *, options: Sequence[str] = ()) -> None:
        self._directory = directory
        self._options = options
        self.headers: Mapping[str, str] = {}
        self._started: StartedServer | None = None

    def __str__(self) -> str:
        return f"{self._directory}/{SOCKET}"

    def connect(self, *, start: bool) -> Connection:
        """A new connection to the server, which is started if there is none.

        Raises OSError if there is none and it may not be started, TarmacError if it does not start.
        """
        try:
            return self._connection()
        except OSError:
            if not start:
                raise
        return self._connect_to_new()

    def await_answer(self, opened: socket.socket, *, limit_s: float) -> None:
        """Wait for the first byte of an answer; raises Unavailable if a signal has stopped the server."""
        deadline = time.monotonic() + limit_s
        while not sockets.readable(opened, _PATIENCE_S):
            pid = _stopped(home_at(self._directory))
            if pid is not None:
                raise Unavailable(
                    f"the server (process {pid}) was stopped by a signal and does not answer",
                    hint=f"kill -CONT {pid} lets it go on; kill -9 {pid} ends it, and its runs go on",
                )
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {limit_s:.0f} s")

    def explain(self, problem: OSError) -> TarmacError:
        """The error for broken connections: the last words of a server that we started, if it ended."""
        server, self._started = self._started, None
        if server is not None and (end := server.early_end(_END_LIMIT_S)) is not None:
            return end
        return Unavailable(f"the server at {self} cannot be reached: {problem}")

    def _connection(self) -> Connection:
        return Connection(sockets.connect(str(self), timeout_s=None))

    def _connect_to_new(self) -> Connection:
        """Start a server and connect as soon as it listens; another client's server may answer.

        A server that finds the home served ends at once. If that other server is just leaving, its socket
        stays dead: then this client starts its own again.
        """
        from tarmac.client.starting import start_server

        deadline = time.monotonic() + START_LIMIT_S
        home = home_at(self._directory)
        server = self._started = start_server(home, self._options)
        while time.monotonic() < deadline:
            status = server.poll()
            try:
                return self._connection()
            except OSError:
                if status == ALREADY_SERVED:
                    server = self._started = start_server(home, self._options)
                elif status is not None:
                    raise server.last_words() from None
            time.sleep(_GLANCE_S)
        raise Unavailable(
            f"the server did not listen within {START_LIMIT_S:.0f} s", hint=f"its log is {home.log}"
        )


def home_at(directory: str) -> Home:
    """The tarmac home in a directory."""
    from pathlib import Path  # takes a twentieth of the time of a short command, which needs no path

    return Home(Path(directory))


def _stopped(home: Home) -> int | None:
    """The process id of a server stopped by a signal (SIGSTOP, Ctrl-Z), but not by a debugger."""
    try:
        pid = int(home.lock.read_text())
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return pid if state == "T" else None
