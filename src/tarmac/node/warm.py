"""The warm parent: a small process that forks runners, because a fresh Python costs more than a short run.

Started by engines (`starting.Installation.warm`) on a node that serves many short runs. It has no state:
requests arrive over one connected unix stream socket, several in a line of JSON, and the runners outlive it.
It ends after the other end of the socket is closed. A finished runner may serve another attempt, which saves
making a process and its namespaces. `IdleRunners` is the parent's side, `next_request` a runner's. Each
runner has its own socket to the parent: it reports there that it waits, and receives a request. It serves one
attempt at a time.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
from contextlib import suppress
from functools import partial
from typing import Callable, Mapping, NamedTuple, NoReturn, Optional

from tarmac.node import environment, runner
from tarmac.node.attempt import records
from tarmac.node.kernel import namespaces
from tarmac.node.kernel.namespaces import ProcessNamespace, Way
from tarmac.node.processes import detach
from tarmac.node.spare import Spare

MOST_ATTEMPTS = 100
"""The maximum of attempts that a runner serves in turn, which limits leftovers in its memory."""

MOST = 64
"""The maximum of runners known to the parent; one forked beyond that serves a single attempt."""

_COLLECT_AFTER = 50_000
"""Objects after which a runner looks for unused cycles: an attempt makes a few thousand."""

_WAITS = b"."
_LONGEST_BYTES = 65536


class _Request(NamedTuple):
    directory: str
    node: str
    secrets: Mapping[str, str] = {}


_read = records.reader(_Request)


def serve(fd: int, *, idle_s: int) -> None:
    """Answer requests on the socket `fd` until it is closed.

    A finished runner waits `idle_s` for another attempt.
    """
    channel = socket.socket(fileno=fd)
    detach.close_inherited(but=frozenset({fd}))
    os.set_inheritable(fd, False)
    # An error also reports the end of the server; the kernel reaps the runners; Ctrl-C is for the server.
    detach.default_signals(signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT)
    parent = _Parent(channel, namespaces.find_way(), idle_s)
    environment.account()
    gc.collect()
    gc.freeze()  # runners share the present memory: keep its pages unchanged
    gc.set_threshold(_COLLECT_AFTER)
    # Closed during an answer: a normal end.
    with suppress(ConnectionError), open(fd, "rb", closefd=False) as requests:
        while line := requests.readline():
            channel.sendall(json.dumps(parent.answer(line)).encode() + b"\n")


class _Parent:
    """The parent's resources, which its runners close."""

    def __init__(self, channel: socket.socket, way: Way, idle_s: int) -> None:
        self._channel = channel
        self._way = way
        self._idle_s = idle_s
        self._idle = IdleRunners()

    def answer(self, line: bytes) -> list[dict[str, object]]:
        """Start a runner for each request of a line."""
        try:
            requests: list[_Request] = [_read(request) for request in json.loads(line)]
        except (ValueError, TypeError) as error:
            return [{"error": f"no list of requests: {type(error).__name__}: {error}"}]
        return [self._start(request) for request in requests]

    def _start(self, request: _Request) -> dict[str, object]:
        """Start a runner: a waiting or a new one. Only a new one gets secrets."""
        try:
            if self._idle_s == 0 or self._way.by is None or request.secrets:
                return {"pid": self._fork(request, None)}
            line = json.dumps(request._asdict()).encode()
            return {"pid": self._idle.hand_over(line) or self._idle.fork(partial(self._fork, request))}
        except OSError as error:
            return {"error": f"no runner can be forked: {error}"}

    def _fork(self, request: _Request, more: Optional[socket.socket]) -> int:
        return namespaces.fork(self._way, partial(self._become_runner, request, more))

    def _become_runner(
        self, request: _Request, more: Optional[socket.socket], namespace: Optional[ProcessNamespace]
    ) -> NoReturn:
        """In the child: close the parent's resources, and run attempts."""
        try:
            self._channel.close()
            self._idle.close()
            detach.own_session()
            detach.drop_stdio()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.chdir("/")
            _serve_attempts(request, namespace, more, self._idle_s)
        finally:
            os._exit(0)


def _serve_attempts(
    request: _Request, namespace: Optional[ProcessNamespace], more: Optional[socket.socket], patience_s: float
) -> None:
    """Run attempts, one after another, as long as this process can serve another and gets a request."""
    spare = Spare()
    try:
        for left in reversed(range(MOST_ATTEMPTS)):
            waits = None if more is None or namespace is None or not left else partial(_say_waiting, more)
            directory, node, secrets = request
            as_new = runner.run_attempt(directory, node, namespace, secrets, spare=spare, waits=waits)
            line = next_request(more, patience_s) if as_new and more is not None else None
            if line is None:
                return
            request = _read(json.loads(line))
    finally:
        spare.drop()


class IdleRunners:
    """A warm parent's runners that wait, or will wait."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._known: dict[int, tuple[socket.socket, int]] = {}
        self._idle: list[int] = []

    def hand_over(self, request: bytes) -> Optional[int]:
        """Pass a request to the runner that began to wait last; its pid, None if none waits."""
        self._listen()
        while self._idle and len(request) <= _LONGEST_BYTES:
            number = self._idle.pop()
            channel, pid = self._known[number]
            try:
                channel.send(request)
                return pid
            except OSError:
                self._forget(number)  # it has ended meanwhile
        return None

    def fork(self, fork: Callable[[Optional[socket.socket]], int]) -> int:
        """Fork a runner that may later wait for more; `fork` gets its end of a channel. Returns its pid."""
        if len(self._known) >= MOST:
            return fork(None)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = ours.fileno()
            self._known[number] = (ours, 0)
            self._poll.register(number, select.POLLIN)
            try:
                pid = fork(theirs)
            except OSError:
                self._forget(number)
                raise
            self._known[number] = (ours, pid)
        return pid

    def close(self) -> None:
        """In a runner: close the channels of all runners."""
        for channel, _ in self._known.values():
            channel.close()

    def _listen(self) -> None:
        """Note the runners that now wait, and those that have ended."""
        for number, _ in self._poll.poll(0):
            channel, _ = self._known[number]
            try:
                waits = channel.recv(1, socket.MSG_DONTWAIT) == _WAITS
            except OSError:
                waits = False
            if waits:
                self._idle.append(number)
            else:
                self._forget(number)

    def _forget(self, number: int) -> None:
        self._poll.unregister(number)
        self._known.pop(number)[0].close()
        if number in self._idle:
            self._idle.remove(number)


def _say_waiting(channel: socket.socket) -> None:
    """Report that this runner waits for a request, or will in a moment."""
    with suppress(OSError):
        channel.send(_WAITS)


def next_request(channel: socket.socket, patience_s: float) -> Optional[bytes]:
    """The next request; None if none arrives or the parent has ended."""
    try:
        channel.settimeout(patience_s)
        try:
            return channel.recv(_LONGEST_BYTES) or None
        except socket.timeout:
            channel.shutdown(socket.SHUT_RD)  # so that the parent cannot send to this runner
            return channel.recv(_LONGEST_BYTES) or None  # unless the parent sent one before
    except OSError:
        return None
