"""The runner's wait for news, and its heartbeat. Called by every hook that waits or takes long.

The runner sleeps until a child changes, a message arrives through the FIFO, a signal arrives or a deadline
passes. It also polls at intervals, because a message may be lost or impossible (another machine, a disk
without FIFOs). The FIFO and the heartbeat are made for an attempt that lasts: most short ones end before.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any, Callable, Optional

from tarmac.node.attempt import protocol
from tarmac.node.attempt.protocol import NodePaths
from tarmac.node.files import untrusted
from tarmac.node.kernel import fifo, syscalls

_GLANCE_S = 0.1
_LASTS_AFTER_S = 0.1
_LEAST_LOOK_S = 0.05

IGNORED = (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that must not end a runner: errors report the same. Workers get the original actions back."""

_LEAVE_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class WakeChannel:
    """Waits, beats, and remembers messages from signals and from the wake channel.

    With `outside_only`, no process of the runner's own namespace can ask it to leave: a worker that signals
    every process that it finds means its own.
    """

    def __init__(
        self,
        node: NodePaths,
        on_beat: Callable[[], object],
        *,
        look_s: float,
        outside_only: bool,
        lasts: bool = True,
    ) -> None:
        """Without `lasts` the first beat, and the FIFO before it, come after a moment."""
        self._node = node
        self._on_beat = on_beat
        self._look_s = max(_LEAST_LOOK_S, min(look_s, protocol.HEARTBEAT_PERIOD_S))
        self._wakeup = -1
        self._outside_only = outside_only
        self._signals = _listen_to_signals(os.getpid())
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._beats = False
        self._beat_due = 0.0 if lasts else time.monotonic() + _LASTS_AFTER_S
        self._glance_due = 0.0
        self.node_leaves = False
        self.messages: dict[str, dict[str, Any]] = {}
        self.beat()

    def wait(self, deadline: Optional[float] = None, *, also: int = -1) -> bool:
        """Return if there may be news, at the latest at `deadline` (monotonic) or when a poll is due.

        `also` is another descriptor to wait for; True if it is readable.
        """
        now = time.monotonic()
        until = min(now + self._look_s, self._beat_due)
        if deadline is not None:
            until = min(deadline, until)
        heard = self._listen(max(0.0, until - now), also)
        self.beat()
        return heard

    def poll(self) -> bool:
        """For long work: beat if due; True at intervals, when requests must be read."""
        now = time.monotonic()
        if now < self._glance_due:
            return False
        self._glance_due = now + _GLANCE_S
        self._listen(0.0)
        self.beat()
        return True

    def beat(self) -> None:
        """Renew the heartbeat if due; before the first one, make the FIFO."""
        now = time.monotonic()
        if now < self._beat_due:
            return
        if not self._beats:
            self._beats = True
            self._wakeup = fifo.listen(self._node.wake)
            if self._wakeup >= 0:
                self._poll.register(self._wakeup, select.POLLIN)
        self._beat_due = now + protocol.HEARTBEAT_PERIOD_S
        self._on_beat()
        with suppress(OSError):  # a full disk refuses only the first one: renewing needs no space
            untrusted.touch(self._node.heartbeat)

    def close(self) -> None:
        """Close the channel."""
        if self._wakeup >= 0:
            os.close(self._wakeup)

    def _listen(self, patience_s: float, also: int = -1) -> bool:
        if also >= 0:
            self._poll.register(also, select.POLLIN)
        try:
            ready = self._poll.poll(patience_s * 1000)
        finally:
            if also >= 0:
                self._poll.unregister(also)
        for handle, _ in ready:
            if handle == also:
                continue
            if handle == self._signals:
                for info in syscalls.read_signals(handle):
                    is_inside = self._outside_only and info.sender != 0
                    self.node_leaves |= info.number in _LEAVE_SIGNALS and not is_inside
            else:
                self._remember(fifo.drain(handle))
        return any(handle == also for handle, _ in ready)

    def _remember(self, heard: bytes) -> None:
        """Remember the channel's messages by their file's name: a full disk has no room for the file."""
        for line in heard.split(b"\n"):
            try:
                message = untrusted.parse_object(line.lstrip(fifo.RING))
            except ValueError:
                continue  # only a ring
            self.messages[protocol.ASK_FILE if "ask" in message else protocol.FAILED_FILE] = message


@lru_cache(maxsize=1)
def _listen_to_signals(_pid: int) -> int:
    """A descriptor of the signals that wake this process, which keeps it for all of its attempts."""
    listened = {signal.SIGCHLD, *_LEAVE_SIGNALS}
    signal.pthread_sigmask(signal.SIG_BLOCK, listened)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    return syscalls.signal_descriptor(listened)
