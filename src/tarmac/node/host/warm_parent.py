"""The other end of the warm parent (`node/warm.py`), which forks runners faster than Python starts.

Called by the local engine, and by the agent of a node, for every runner. The parent starts ahead of the first
runner, and again after it ended; runners have their own sessions and outlive both the parent and this
process.
"""

from __future__ import annotations

import contextlib
import errno
import json
import resource
import socket
import subprocess
from threading import Lock
from typing import Mapping, NamedTuple, Optional, Sequence

from tarmac.node.starting import Installation

ANSWER_TIMEOUT_S = 10.0
END_TIMEOUT_S = 5.0
IDLE_S = 60
"""How long a finished runner waits for another attempt: making a process and its namespaces takes long."""

OpenFiles = tuple[int, int]
"""The limit of a process's open files: the current limit, and the highest that it may set."""


class Start(NamedTuple):
    """A runner to start: that of one node of the attempt in a directory, with the values of its secrets."""

    directory: str
    node: str
    secrets: Mapping[str, str] = {}


class WarmParent:
    """Starts runners of an installation. Thread-safe: one request at a time.

    `open_files`: their limit of open files, if it differs from this process's.
    """

    def __init__(self, installation: Installation, *, open_files: Optional[OpenFiles] = None) -> None:
        self._installation = installation
        self._open_files = open_files
        self._lock = Lock()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._socket: Optional[socket.socket] = None
        self._closed = False

    def start(self) -> None:
        """Start the parent ahead of the first runner, if possible; does not wait for it."""
        with self._lock, contextlib.suppress(OSError):
            if not self._closed and self._socket is None:
                self._begin()

    def start_runners(self, starts: Sequence[Start]) -> list[Optional[OSError]]:
        """Fork the runners of these nodes by one request; for each why that is impossible now, else None.

        May be called again for the same node: the second runner finds the claim taken and exits.
        """
        with self._lock:
            problems = self._ask(json.dumps([start._asdict() for start in starts]).encode(), len(starts))
        return [
            None
            if why is None
            else OSError(errno.EAGAIN, f"the runner of node {node} cannot be started: {why}")
            for (_, node, _), why in zip(starts, problems)  # noqa: B905 - one for each
        ]

    def close(self) -> None:
        """End the warm parent; runners continue."""
        with self._lock:
            self._closed = True
            self._end()

    def _ask(self, request: bytes, count: int) -> list[Optional[str]]:
        """Why each of `count` runners cannot be started; None for the others."""
        why = "this end is closed"
        for _ in range(0 if self._closed else 2):  # it may have ended since its last use: try a new one
            try:
                return self._exchange(request + b"\n", count)
            except OSError as error:
                self._end()
                why = str(error)
        return [why] * count

    def _exchange(self, line: bytes, count: int) -> list[Optional[str]]:
        """Send one line and read one line."""
        channel = self._socket or self._begin()
        channel.sendall(line)
        with channel.makefile("rb") as stream:
            answer = stream.readline()
        if not answer.endswith(b"\n"):
            raise ConnectionError("the warm parent ended")
        try:
            found = [each.get("error") for each in json.loads(answer)]
        except (ValueError, TypeError, AttributeError):
            found = []
        if len(found) != count:
            raise ConnectionError(f"an unreadable answer: {answer[:80]!r}")
        return found

    def _begin(self) -> socket.socket:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(ANSWER_TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(
                self._installation.warm(theirs.fileno(), idle_s=IDLE_S),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the server's terminal must not reach it
                cwd="/",
            )
        if self._open_files is not None:  # the server has raised its own; runs get their user's
            with contextlib.suppress(OSError):
                resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, self._open_files)
        return self._socket

    def _end(self) -> None:
        """Close this end, after which the parent exits; wait for that."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(END_TIMEOUT_S)
            self._process = None
