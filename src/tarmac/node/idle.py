"""Runners that have done their part and wait for another, which spares a process and its namespaces.

Called by `warm`: `IdleRunners` is the parent's side, `next_request` a runner's. Each runner has a socket of
its own to the parent: it says there that it waits, and is sent a request. It serves one attempt at a time.
"""

from __future__ import annotations

import select
import socket
from typing import Callable, Optional

MOST = 64
"""The parent knows so many runners at most; one that is forked beyond that serves a single attempt."""

_WAITS = b"."
_LONGEST_BYTES = 65536


class IdleRunners:
    """The runners of a warm parent that wait, or will."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._known: dict[int, tuple[socket.socket, int]] = {}
        self._idle: list[int] = []

    def hand_over(self, request: bytes) -> Optional[int]:
        """Give a request to the runner that waits since last; its pid, None where none waits."""
        self._listen()
        while self._idle and len(request) <= _LONGEST_BYTES:
            number = self._idle.pop()
            channel, pid = self._known[number]
            try:
                channel.send(request)
                return pid
            except OSError:
                self._forget(number)  # it has left meanwhile
        return None

    def fork(self, fork: Callable[[Optional[socket.socket]], int]) -> int:
        """Have a runner forked that may wait for more later; its pid. It is given its end of a channel."""
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
        """In a runner: let go of the channels of all."""
        for channel, _ in self._known.values():
            channel.close()

    def _listen(self) -> None:
        """Take in who waits by now, and who has left."""
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


def next_request(channel: socket.socket, patience_s: float) -> Optional[bytes]:
    """Say that this runner waits; the request that comes, None where none does, or the parent has ended."""
    try:
        channel.send(_WAITS)
        channel.settimeout(patience_s)
        try:
            return channel.recv(_LONGEST_BYTES) or None
        except socket.timeout:
            channel.shutdown(socket.SHUT_RD)  # the parent finds nobody here any more
            return channel.recv(_LONGEST_BYTES) or None  # unless it had by then
    except OSError:
        return None
