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
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from tarmac.node.attempt.protocol import LONGEST_REQUEST_BYTES
from tarmac.node.starting import Installation

ANSWER_TIMEOUT_S = 10.0
END_TIMEOUT_S = 5.0
IDLE_S = 60
"""How long a finished runner waits for another attempt: making a process and its namespaces takes long."""

OpenFiles = tuple[int, int]
"""The limit of a process's open files: the current limit, and the highest that it may set."""


_BRACKETS = len(b"[]\n")


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

    def start_runners(self, starts: Sequence[Start]) -> list[Optional[Exception]]:
        """Fork the runners of these nodes by one request; for each why it could not be started, else None.

        OSError: impossible now. ValueError: the values of its secrets, which travel only over the socket, are
        too large. May be called again for the same node: the second runner finds the claim taken and exits.
        """
        requests = [json.dumps(start._asdict()).encode() for start in starts]
        found: list[Optional[Exception]] = [
            ValueError("the secrets of the run are too large together")
            if len(request) >= LONGEST_REQUEST_BYTES - _BRACKETS
            else None
            for request in requests
        ]
        with self._lock:
            for batch in _batches([number for number, problem in enumerate(found) if not problem], requests):
                problems = self._ask([requests[number] for number in batch])
                for number, problem in zip(batch, problems):  # noqa: B905 - the same numbers
                    if problem is not None:
                        found[number] = _cannot(starts[number].node, problem)
        return found

    def close(self) -> None:
        """End the warm parent; runners continue."""
        with self._lock:
            self._closed = True
            self._end()

    def _ask(self, requests: list[bytes]) -> list[Optional[str]]:
        """Why each of these runners cannot be started; None for the others."""
        why = "this end is closed"
        for _ in range(0 if self._closed else 2):  # it may have ended since its last use: try a new one
            try:
                return self._exchange(b"[" + b",".join(requests) + b"]\n", len(requests))
            except OSError as error:
                self._end()
                why = str(error)
        return [why] * len(requests)

    def _exchange(self, line: bytes, count: int) -> list[Optional[str]]:
        """Send one line and read one line."""
        channel = self._socket or self._begin()
        channel.sendall(line)
        with channel.makefile("rb") as stream:
            answer = stream.readline(LONGEST_REQUEST_BYTES)
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


def _batches(numbers: Iterable[int], requests: Sequence[bytes]) -> Iterator[list[int]]:
    """The numbers of requests, in groups that are short enough for one line."""
    batch: list[int] = []
    size_bytes = _BRACKETS
    for number in numbers:
        size_bytes += len(requests[number]) + 1
        if batch and size_bytes > LONGEST_REQUEST_BYTES:
            yield batch
            batch, size_bytes = [], _BRACKETS + len(requests[number]) + 1
        batch.append(number)
    if batch:
        yield batch


def _cannot(node: str, why: str) -> OSError:
    return OSError(errno.EAGAIN, f"the runner of node {node} cannot be started: {why}")
