"""The other end of the warm parent (`node/warm.py`), which forks runners faster than Python starts.

Called by the local engine, and by the agent of a node, for every runner. The parent is started ahead of the
first, and again when it has died; a runner it forked lives in a session of its own and outlives both of us.
"""

from __future__ import annotations

import contextlib
import errno
import json
import resource
import socket
import subprocess
from collections.abc import Mapping
from threading import Lock
from typing import Optional

from tarmac.node.attempt.protocol import LONGEST_REQUEST_BYTES
from tarmac.node.starting import Installation

ANSWER_TIMEOUT_S = 10.0
END_TIMEOUT_S = 5.0
ANSWER_BYTES = 65_536
IDLE_S = 60
"""How long a runner that has done its part waits for another: a process and its namespaces are dear."""

OpenFiles = tuple[int, int]
"""How many files a process may open: the limit that counts, and the highest it may set for itself."""


class WarmParent:
    """Starts runners as they are installed. Thread-safe: one request is on its way at a time.

    `open_files`: how many files they may open, where it is not as many as this process.
    """

    def __init__(self, installation: Installation, *, open_files: Optional[OpenFiles] = None) -> None:
        self._installation = installation
        self._open_files = open_files
        self._lock = Lock()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._socket: Optional[socket.socket] = None
        self._closed = False

    def start(self) -> None:
        """Start the parent ahead of the first runner, if that is possible now; does not wait for it."""
        with self._lock, contextlib.suppress(OSError):
            if not self._closed and self._socket is None:
                self._begin()

    def start_runner(self, directory: str, node: str, secrets: Mapping[str, str]) -> None:
        """Fork the runner of one node of an attempt. Raises OSError when that is not possible now.

        The values of `secrets` go over the socket and nowhere else; ValueError where they are too many.

        May be called again for the same node: the second runner finds the claim taken and leaves.
        """
        message = {
            "directory": directory,
            "node": node,
            **({"secrets": dict(secrets)} if secrets else {}),
        }
        request = json.dumps(message).encode() + b"\n"
        if len(request) > LONGEST_REQUEST_BYTES:
            raise ValueError("the secrets of the run are too large together")
        with self._lock:
            if self._closed:
                raise _cannot(node, "this end is closed")
            try:
                answer = self._exchange(request)
            except OSError:  # it died since it was last used: once more with a new one
                self._end()
                try:
                    answer = self._exchange(request)
                except OSError as error:
                    self._end()
                    raise _cannot(node, str(error)) from None
        if "error" in answer:
            raise _cannot(node, str(answer["error"]))

    def close(self) -> None:
        """End the warm parent; no runner is touched."""
        with self._lock:
            self._closed = True
            self._end()

    def _exchange(self, request: bytes) -> dict[str, object]:
        """One line out, one line back."""
        channel = self._socket or self._begin()
        channel.sendall(request)
        answer = b""
        while not answer.endswith(b"\n"):
            piece = channel.recv(ANSWER_BYTES)
            if not piece:
                raise ConnectionError("the warm parent ended")
            answer += piece
        try:
            return dict(json.loads(answer))
        except (ValueError, TypeError):
            raise ConnectionError(f"an unreadable answer: {answer[:80]!r}") from None

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
                start_new_session=True,  # Ctrl-C in the server's terminal is not meant for it
                cwd="/",
            )
        if self._open_files is not None:  # the server's own are raised; runs have those of their user
            with contextlib.suppress(OSError):
                resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, self._open_files)
        return self._socket

    def _end(self) -> None:
        """Close our end, upon which the parent leaves by itself; see it off."""
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


def _cannot(node: str, why: str) -> OSError:
    return OSError(errno.EAGAIN, f"the runner of node {node} cannot be started: {why}")
