"""Passes bytes between the two ends of a session, until one of them leaves. Called by `serving`.

It never waits for one side alone: signals pass while the command does not read its input, and while the near
end does not read its output.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Callable, NamedTuple, Optional, Protocol

from tarmac.node.kernel.sockets import writable
from tarmac.node.session import frames
from tarmac.node.wire.frames import LARGEST_BYTES, Frame, Splitter, pack, pack_document

MOST_OUTGOING_BYTES = 1 << 18
"""The maximum of output waiting for the near end; beyond it the command waits."""

LOOK_S = 1.0
"""The interval for checking whether the worker still runs."""

LAST_OUTPUT_BYTES = 1 << 20
"""The maximum of output read after the end: the command's remaining processes may write forever."""

_ENDED_BY_WORKER = "the worker has ended, and the session with it"


class Relay:
    """One session. `channel` is connected to the near end; the session lasts while `worker_lives`."""

    def __init__(self, channel: socket.socket, far: FarEnd, worker_lives: Callable[[], bool]) -> None:
        self._channel = channel
        self._far = far
        self._worker_lives = worker_lives
        self._incoming = Splitter()
        self._outgoing = bytearray()
        self._input = bytearray()
        self._input_ends = False
        self._near_is_there = True
        self._looked_at = self._pinged_at = time.monotonic()
        self._wake = _wake_by_children()

    def run(self) -> None:
        """Run until the far end, the near end or the worker has ended; then end the rest."""
        for handle in {self._far.input, *self._far.outputs} - {None}:
            os.set_blocking(handle, False)  # type: ignore[arg-type]
        self._channel.setblocking(False)
        while self._near_is_there:
            ending = self._far.ending()
            if ending is None and not self._still_needed():
                self._drain()
                self._far.hang_up()
                ending = Ending(signal=signal.SIGHUP, message=_ENDED_BY_WORKER)
            if ending is not None:
                if ending.signal == signal.SIGKILL and not self._worker_lives():
                    ending = ending._replace(message=_ENDED_BY_WORKER)  # the kernel ended its whole namespace
                self._drain()
                self._say(pack_document(frames.ENDED, **ending._asdict()))
                while self._outgoing and self._near_is_there:  # however slowly the near end reads
                    writable(self._channel)
                    self._send()
                break
            self._step()
        self._channel.close()
        self._far.hang_up()

    def _still_needed(self) -> bool:
        now = time.monotonic()
        if now - self._pinged_at >= frames.PING_S:
            self._pinged_at = now
            self._say(pack(frames.PING))
        if now - self._looked_at < LOOK_S:
            return True
        self._looked_at = now
        return self._worker_lives()

    def _step(self) -> None:
        """Wait until bytes can be passed on, and do that."""
        poll = select.poll()
        interests: dict[int, int] = {self._channel.fileno(): select.POLLIN, self._wake: select.POLLIN}
        if self._outgoing:
            interests[self._channel.fileno()] |= select.POLLOUT
        if len(self._outgoing) < MOST_OUTGOING_BYTES:
            for handle in self._far.outputs:
                interests[handle] = select.POLLIN
        if self._far.input is not None and self._input:
            interests[self._far.input] = interests.get(self._far.input, 0) | select.POLLOUT
        for handle, interest in interests.items():
            poll.register(handle, interest)
        ready = dict(poll.poll(LOOK_S * 1000))
        if self._wake in ready:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
        for handle in [handle for handle in self._far.outputs if handle in ready and handle in interests]:
            if ready[handle] & ~select.POLLOUT:
                self._read_output(handle)
        self._write_input()
        if ready.get(self._channel.fileno(), 0) & ~select.POLLOUT:
            self._receive()
        self._send()

    # --- from the near end

    def _receive(self) -> None:
        try:
            data = self._channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._near_is_there = False
            return
        self._incoming.feed(data)
        try:
            for frame in self._incoming.take():
                self._take(frame)
        except (ValueError, KeyError, TypeError):
            self._near_is_there = False  # it violates the protocol

    def _take(self, frame: Frame) -> None:
        if frame.kind == frames.INPUT:
            self._input += frame.content
            self._input_ends = self._input_ends or not frame.content
            if len(self._input) > frames.FIRST_ROOM_BYTES + LARGEST_BYTES:
                raise ValueError("more input than there is room for")
            self._write_input()
        elif frame.kind == frames.RESIZE:
            size = frame.document()
            self._far.resize(int(size["rows"]), int(size["columns"]))
        elif frame.kind == frames.SIGNAL:
            self._far.signal(signal.Signals(frame.document()["number"]))

    def _write_input(self) -> None:
        """Write as much as the command takes now, and grant the near end as much again."""
        if self._far.input is not None and self._input:
            try:
                written = os.write(self._far.input, self._input[: frames.PIECE_BYTES])
            except BlockingIOError:
                return
            except OSError:  # it no longer reads: drop the input
                self._far.close_input()
                written = 0
            del self._input[:written]
            if written:
                self._say(pack_document(frames.ROOM, bytes=written))
        if self._far.input is None and self._input:
            self._say(pack_document(frames.ROOM, bytes=len(self._input)))
            self._input.clear()
        if self._input_ends and not self._input and self._far.input is not None:
            self._far.close_input()

    # --- to the near end

    def _read_output(self, handle: int) -> int:
        """Pass on the available output; returns the number of bytes."""
        kind = self._far.outputs[handle]
        try:
            data = os.read(handle, frames.PIECE_BYTES)
        except BlockingIOError:
            return 0
        except OSError:  # a terminal that no process has open, or a broken connection
            data = b""
        if not data:
            self._far.close_output(handle)
        self._say(pack(kind, data))
        return len(data)

    def _drain(self) -> None:
        """Read the output from before its end."""
        left = LAST_OUTPUT_BYTES
        for handle in list(self._far.outputs):
            while left > 0 and handle in self._far.outputs and (read := self._read_output(handle)):
                left -= read

    def _say(self, data: bytes) -> None:
        self._outgoing += data

    def _send(self) -> None:
        if not self._outgoing:
            return
        try:
            sent = self._channel.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError:
            self._near_is_there = False
            return
        del self._outgoing[:sent]


def _wake_by_children() -> int:
    """A descriptor that is readable after a child process has ended."""
    hear, say = os.pipe()
    os.set_blocking(hear, False)
    os.set_blocking(say, False)
    signal.set_wakeup_fd(say, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return hear


class Ending(NamedTuple):
    """The end of the far end: an exit code, a signal, or neither, with a message for people."""

    exit_code: Optional[int] = None
    signal: Optional[int] = None
    message: Optional[str] = None


class FarEnd(Protocol):
    """`input` takes bytes, `outputs` supply them, each as frames of its kind; all are descriptors."""

    input: Optional[int]
    outputs: dict[int, bytes]

    def ending(self) -> Optional[Ending]:
        """How the far end ended; None while it runs."""

    def resize(self, rows: int, columns: int) -> None:
        """The near end's terminal has this size now."""

    def signal(self, number: int) -> None:
        """Pass on a signal of the near end, if a process takes it."""

    def close_input(self) -> None:
        """Close the input after the near end's last byte."""

    def close_output(self, handle: int) -> None:
        """Close one of `outputs` at its end."""

    def hang_up(self) -> None:
        """End everything after the near end left. Blocks until that is done."""
