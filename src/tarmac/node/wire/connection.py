"""Calls and streams over one connection, many at a time, in both directions. Used at both ends.

    CALL   NUMBER and a message {"do": NAME, "with": {ARGUMENT: VALUE}, "stream": whether data may follow}
    DATA   NUMBER and a piece of the stream of a call, either way; an empty one is the end of that direction
    ROOM   NUMBER and an amount of data that the sender of this frame can take in addition
    END    NUMBER and a message {"result"}, {"error": [NUMBER, TEXT, PATH]}, {"refused"} or {"lost": TEXT}

A number is four bytes, odd for calls of the connecting end; a call with number 0 gets no answer. Each call
has its own thread at the other end, and each stream a window (`WINDOW_BYTES`): a hanging call or a slow
reader delays no other.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from threading import Condition, Lock, Thread
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping, Optional

from tarmac.node.wire import frames

CALL, DATA, ROOM, END = b"c", b"d", b"+", b"e"

LARGEST_BYTES = 64 * 1024 * 1024
"""The maximum content of a frame."""

PIECE_BYTES = 1 << 16
"""The maximum of data in a frame: a frame of another call waits behind few of these."""

WINDOW_BYTES = 1 << 20
"""The maximum of unread data of a stream: then its sender waits."""

MARGIN_S = 15.0
"""Maximum transmission time of a request and its answer."""

STREAM_S = 120.0
"""How long a stream may pause."""

_NUMBER = struct.Struct(">I")
_ROOM = struct.Struct(">II")


class Lost(Exception):
    """The connection or a stream has ended early, or the other end does not answer in time."""


def _no_calls(name: str) -> Callable[..., Any]:
    raise ValueError(f"there is no operation {name!r}")


class Connection:
    """One connection, unusable once it is lost. Thread-safe; one thread must `run` it.

    `send` writes as much as is possible now to `descriptor` (BlockingIOError: nothing); `close` ends the
    other end. `find` resolves the names of the other end's calls, or raises ValueError. Each write may take
    `margin_s` (None: any time). `accepted`: this end did not connect.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        find: Callable[[str], Callable[..., Any]] = _no_calls,
        send: Optional[Callable[[memoryview], int]] = None,
        close: Callable[[], None] = lambda: None,
        margin_s: Optional[float] = MARGIN_S,
        accepted: bool = False,
    ) -> None:
        self._descriptor = descriptor
        self._find = find
        self._send_now = send or (lambda rest: os.write(descriptor, rest))
        self.close = close
        """End the connection."""
        self._margin_s = margin_s
        self._next = 2 if accepted else 1
        self._lock = Lock()
        self._streams: dict[int, Stream] = {}
        self.sending = Lock()
        self.heard_at = time.monotonic()
        """Time of the last frame from the other end."""
        self.lost_at: Optional[float] = None
        """When the connection became unusable."""

    def call(self, name: str, arguments: Mapping[str, Any], *, timeout_s: float) -> Any:
        """Perform an operation at the other end. Raises Lost, its OSError, and ValueError."""
        return self._begin(name, arguments, stream=False).result(timeout_s + (self._margin_s or 0.0))

    def stream(self, name: str, arguments: Mapping[str, Any]) -> Stream:
        """Begin a call with a stream, which the other end's operation gets first. Raises Lost."""
        return self._begin(name, arguments, stream=True)

    def upload(self, name: str, arguments: Mapping[str, Any], pieces: Iterable[bytes]) -> Any:
        """Perform an operation that reads these pieces. Raises as `call`."""
        stream = self.stream(name, arguments)
        try:
            for piece in pieces:
                if not stream.send(piece):
                    break  # already present, or refused
            stream.finish()
            return stream.result(STREAM_S)
        finally:
            stream.break_off()

    def notify(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Call without an answer, in the thread that runs the other end. Raises Lost."""
        self.write(CALL, 0, frames.encode({"do": name, "with": dict(arguments)}))

    def run(self, stream: BinaryIO) -> None:
        """Take frames until the stream ends or is invalid; `lose` must follow."""
        with suppress(OSError, ValueError, KeyError, TypeError, struct.error):
            while (frame := frames.read(stream.read, LARGEST_BYTES)) is not None:
                self.heard_at = time.monotonic()
                number = _NUMBER.unpack_from(frame.content)[0]
                if frame.kind == CALL:
                    self._called(number, frames.decode(frame.content[_NUMBER.size :]))
                    continue
                with self._lock:
                    known = self._streams.get(number)
                if known is not None:
                    known.take(frame)

    def lose(self, reason: str = "") -> None:
        """End the connection, with all calls in both directions."""
        with self._lock:
            self.lost_at = time.monotonic()
            streams, self._streams = list(self._streams.values()), {}
        for stream in streams:
            stream.lose(f"the connection was lost{reason and ': '}{reason}")

    def write(self, kind: bytes, number: int, content: bytes = b"") -> None:
        """Write a frame; if that fails, close the connection. Raises Lost."""
        self.write_raw(frames.pack(kind, _NUMBER.pack(number) + content), self._margin_s)

    def write_raw(self, data: bytes, timeout_s: Optional[float]) -> None:
        """Write bytes that are no frame, before the first one. Raises Lost."""
        rest, deadline = memoryview(data), None if timeout_s is None else time.monotonic() + timeout_s
        if not self.sending.acquire(timeout=-1 if timeout_s is None else timeout_s):
            raise Lost(f"nothing could be sent within {timeout_s:g} s")
        try:
            if self.lost_at is not None:  # its descriptor may belong to another file by now
                raise ConnectionError("it has ended")
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            while rest:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not poll.poll(None if left_s is None else left_s * 1000):
                    raise TimeoutError(f"nothing could be sent within {timeout_s:g} s")
                with suppress(BlockingIOError):
                    rest = rest[self._send_now(rest) :]
        except (OSError, ValueError) as error:
            self.close()
            raise Lost(f"the connection was lost: {error}") from None
        finally:
            self.sending.release()

    def forget(self, number: int) -> None:
        """Ignore further frames of a call."""
        with self._lock:
            self._streams.pop(number, None)

    def _begin(self, name: str, arguments: Mapping[str, Any], *, stream: bool) -> Stream:
        content = frames.encode({"do": name, "with": dict(arguments), "stream": stream})
        with self._lock:
            if self.lost_at is not None:
                raise Lost("the connection was lost")
            number, self._next = self._next, self._next + 2
            begun = self._streams[number] = Stream(self, number)
        try:
            self.write(CALL, number, content)
        except Lost:
            self.forget(number)
            raise
        return begun

    def _called(self, number: int, message: dict[str, Any]) -> None:
        """Begin a call of the other end."""
        if number == 0:
            self._find(message["do"])(**message["with"])
            return
        if number % 2 == self._next % 2:
            raise ValueError("the number of a call of this end")
        stream = Stream(self, number)
        with self._lock:
            self._streams[number] = stream
        Thread(target=self._answer, args=(stream, message), daemon=True).start()

    def _answer(self, stream: Stream, message: dict[str, Any]) -> None:
        """Perform a call, and send its answer."""
        try:
            function = self._find(message["do"])
            data = (stream,) if message.get("stream") else ()
            content = frames.encode({"result": function(*data, **message["with"])})
        except Lost as error:
            content = frames.encode({"lost": str(error)})
        except OSError as error:
            content = frames.encode({"error": [error.errno, error.strerror or str(error), error.filename]})
        except ValueError as error:
            content = frames.encode({"refused": str(error)})
        except Exception as error:  # noqa: BLE001 - the caller gets the message of a bug as well
            text = f"{message.get('do')} failed: {type(error).__name__}: {error}"
            content = frames.encode({"refused": text})
        self.forget(stream.number)
        with suppress(Lost):  # the other end has left
            self.write(END, stream.number, content)
        stream.lose("it is answered")


class Stream:
    """One call, and data both ways. Iterate over it, or `receive`, to read. Thread-safe."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.number = number
        self._connection = connection
        self._began_at = time.monotonic()
        self._changed = Condition()
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._read_bytes = 0
        self._room_bytes = WINDOW_BYTES
        self._ended = False
        self._answer: Optional[dict[str, Any]] = None
        self._lost: Optional[str] = None

    def __iter__(self) -> Iterator[bytes]:
        """The pieces, until the other end finishes its direction. Raises Lost."""
        while piece := self.receive():
            yield piece

    def receive(self, timeout_s: Optional[float] = None) -> bytes:
        """The next piece; empty at the end of the other end's data. Raises Lost."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: self._unread or self._ended or self._lost is not None, timeout_s
            ):
                raise Lost(f"nothing came within {timeout_s:g} s")
            if not self._unread:
                if self._lost is not None:
                    raise Lost(self._lost)
                return b""
            piece = self._unread.popleft()
            self._unread_bytes -= len(piece)
            self._read_bytes += len(piece)
            granted, enough = self._read_bytes, self._read_bytes >= WINDOW_BYTES // 4 and not self._ended
            if enough:
                self._read_bytes = 0
        if enough:
            self._connection.write(ROOM, self.number, _NUMBER.pack(granted))
        return piece

    def send(self, data: bytes, timeout_s: Optional[float] = STREAM_S) -> bool:
        """Send data, as fast as the other end reads it; False if it has answered already. Raises Lost."""
        for begin in range(0, len(data), PIECE_BYTES):
            piece = data[begin : begin + PIECE_BYTES]
            with self._changed:
                if not self._changed.wait_for(self._may_send, timeout_s):
                    raise Lost(f"nothing could be sent within {timeout_s:g} s")
                if self._lost is not None:
                    raise Lost(self._lost)
                if self._answer is not None:
                    return False
                self._room_bytes -= len(piece)
            self._connection.write(DATA, self.number, piece)
        return True

    def finish(self) -> None:
        """End this end's data. Raises Lost."""
        if self._answer is None:
            self._connection.write(DATA, self.number)

    def result(self, timeout_s: Optional[float]) -> Any:
        """The answer to the call. Raises Lost, the operation's OSError, and ValueError."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None or self._lost is not None, timeout_s)
            answer, lost = self._answer, self._lost
        self._connection.forget(self.number)
        if answer is None and lost is None:
            if self._connection.heard_at < self._began_at:  # the other end is silent
                self._connection.close()
            raise Lost(f"no answer within {timeout_s:g} s")
        if answer is None:
            raise Lost(lost)
        if "error" in answer:
            raise OSError(*answer["error"])
        if "refused" in answer:
            raise ValueError(answer["refused"])
        return answer["result"]

    def break_off(self) -> None:
        """Break the call off, unless it is answered: the operation at the other end loses its stream."""
        self._connection.forget(self.number)
        if self._answer is not None:
            return
        self.lose("it was broken off")
        with suppress(Lost):
            self._connection.write(END, self.number, frames.encode({"lost": "the caller has left"}))

    def take(self, frame: frames.Frame) -> None:
        """Take a frame of the other end. Raises ValueError if it violates the protocol."""
        content = frame.content[_NUMBER.size :]
        with self._changed:
            if frame.kind == DATA and content:
                self._unread.append(content)
                self._unread_bytes += len(content)
                if self._unread_bytes > WINDOW_BYTES:
                    raise ValueError("more data than there is room for")
            elif frame.kind == DATA:
                self._ended = True
            elif frame.kind == ROOM:
                self._room_bytes += _ROOM.unpack(frame.content)[1]
            elif frame.kind == END:
                message = frames.decode(content)
                if "lost" in message:
                    self._lost = str(message["lost"])
                else:
                    self._answer, self._ended = message, True
            self._changed.notify_all()

    def lose(self, reason: str) -> None:
        """Fail whoever waits for this stream."""
        with self._changed:
            if self._answer is None and self._lost is None:
                self._lost = reason
            self._changed.notify_all()

    def _may_send(self) -> bool:
        return self._room_bytes >= PIECE_BYTES or self._answer is not None or self._lost is not None


def pass_on(stream: Stream, to: Connection, name: str, arguments: Mapping[str, Any]) -> Any:
    """Carry a call, with its data both ways, over another connection. Raises as `Stream.result`."""
    far = to.stream(name, arguments)

    def forward() -> None:
        try:
            for piece in stream:
                far.send(piece)
            far.finish()
        except Lost:
            far.break_off()

    Thread(target=forward, name="pass-on", daemon=True).start()
    try:
        for piece in far:
            stream.send(piece)
        return far.result(STREAM_S)
    except Lost:
        far.break_off()
        raise


def over_socket(found: socket.socket, **more: Any) -> Connection:
    """A connection over a socket; see `Connection`."""

    def close() -> None:
        with suppress(OSError):
            found.shutdown(socket.SHUT_RDWR)

    return Connection(
        found.fileno(), send=lambda rest: found.send(rest, socket.MSG_DONTWAIT), close=close, **more
    )


def run_over_socket(found: socket.socket, connection: Connection) -> None:
    """Run a connection over a socket to its end, then close the socket."""
    with found, found.makefile("rb") as stream:
        connection.run(stream)
        connection.lose()
        with connection.sending:  # no thread writes to the descriptor after it is closed
            pass
