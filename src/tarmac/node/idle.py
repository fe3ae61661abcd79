"""Finished runners that wait for another attempt, which saves making a process and its namespaces.

Called by `warm`: `IdleRunners` is the parent's side, `next_request` a runner's. Each runner has its own
socket to the parent: it reports there that it waits, and receives a request. It serves one attempt at a time.
"""

from __future__ import annotations

import select
import socket
from typing import Callable, Optional

MOST = 64
"""The maximum of runners known to the parent; one forked beyond that serves a single attempt."""

_WAITS = b"."
_LONGEST_BYTES = 65536


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


def next_request(channel: socket.socket, patience_s: float) -> Optional[bytes]:
    """Report that this runner waits; the next request, None if none arrives or the parent has ended."""
    try:
        channel.send(_WAITS)
        channel.settimeout(patience_s)
        try:
            return channel.recv(_LONGEST_BYTES) or None
        except socket.timeout:
            channel.shutdown(socket.SHUT_RD)  # so that the parent cannot send to this runner
            return channel.recv(_LONGEST_BYTES) or None  # unless the parent sent one before
    except OSError:
        return None
