"""The far end of a connection to a host: executes requests until the connection ends. Begun by `loading`.

    requests   {"id", "do": NAME, "with": {ARGUMENT: VALUE}}       a function of `operations`
               {"id", "piece": BYTES}, the last one empty          of the stream that `take_code` reads
    answers    {"id", "result"}, {"id", "error": [NUMBER, TEXT, PATH]} or {"id", "refused": TEXT}
    unasked    {"news": ATTEMPT}                                   from an agent alone: see `agent`

Each request has its own thread: a hanging command delays no other request. Some finished threads wait for
another request, as a thread costs more than most requests. The end of the connection ends commands that still
run.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, BinaryIO, Callable, Optional

from tarmac.node.files import bundles
from tarmac.node.host import frames, operations

SPARE_THREADS = 8

PIECES = 8
"""The maximum of waiting pieces of a stream: then the sender blocks, and the connection with it."""


def serve(stream: BinaryIO, output: int) -> None:
    """Execute requests until the connection ends; then this process ends."""
    with suppress(OSError, ValueError):  # the other end has left, or sent invalid data
        Server(output, operation).run(stream)
    operations.end_commands()
    os._exit(0)


def operation(name: str) -> Callable[..., Any]:
    """The function of `operations` with this name. Raises ValueError."""
    found = None if name.startswith("_") else getattr(operations, name, None)
    if not callable(found):
        raise ValueError(f"there is no operation {name!r}")
    function: Callable[..., Any] = found
    return function


class Server:
    """One connection: requests are resolved with `find`, and answered on the descriptor `output`."""

    def __init__(self, output: int, find: Callable[[str], Callable[..., Any]]) -> None:
        self._output = output
        self._find = find
        self._lock = Lock()
        self._streams: dict[int, _Pieces] = {}
        self._pending: Queue[Optional[dict[str, Any]]] = Queue()
        self._threads = Lock()
        self._spare = 0
        self._over = False

    def run(self, stream: BinaryIO) -> None:
        """Execute requests until the connection ends. Raises OSError and ValueError."""
        try:
            self._take_requests(stream)
        finally:
            with self._threads:
                self._over = True
                for _ in range(self._spare):
                    self._pending.put(None)

    def _take_requests(self, stream: BinaryIO) -> None:
        while (message := frames.read(stream)) is not None:
            if "piece" in message:
                pieces = self._streams.get(message["id"])
                if pieces is not None:
                    pieces.add(message["piece"])
                continue
            if message["do"] == "take_code":
                self._streams[message["id"]] = _Pieces()
            self._begin(message)

    def _begin(self, message: dict[str, Any]) -> None:
        """Give a request to a waiting thread, or to a new one."""
        with self._threads:
            if self._spare:
                self._spare -= 1
                self._pending.put(message)
                return
        Thread(target=self._work, args=(message,), daemon=True).start()

    def _work(self, first: dict[str, Any]) -> None:
        message: Optional[dict[str, Any]] = first
        while message is not None:
            self._do(message)
            with self._threads:
                if self._over or self._spare >= SPARE_THREADS:
                    return
                self._spare += 1
            message = self._pending.get()

    def _do(self, message: dict[str, Any]) -> None:
        number, arguments = message["id"], message["with"]
        pieces = self._streams.get(number)
        answer: dict[str, Any] = {"id": number}
        try:
            if pieces is not None:
                bundles.receive(io.BufferedReader(pieces), **arguments)
                answer["result"] = None
            else:
                answer["result"] = self._find(message["do"])(**arguments)
        except OSError as error:
            answer["error"] = [error.errno, error.strerror or str(error), error.filename]
        except (ValueError, bundles.BrokenOff) as error:
            answer["refused"] = str(error)
        except Exception as error:  # noqa: BLE001 - whoever waits is told of a bug too
            answer["refused"] = f"{message['do']} failed: {type(error).__name__}: {error}"
        if pieces is not None:
            del self._streams[number]
            pieces.end()
        with suppress(OSError):  # the other end has left
            self.send(answer)

    def send(self, answer: dict[str, Any]) -> None:
        """Send a message. Raises OSError."""
        rest = memoryview(frames.pack(answer))
        with self._lock:
            while rest:
                rest = rest[os.write(self._output, rest) :]


class _Pieces(io.RawIOBase):
    """The pieces of a stream, as a readable file."""

    def __init__(self) -> None:
        self._waiting: Queue[bytes] = Queue(PIECES)
        self._rest = b""
        self._over = False

    def add(self, piece: bytes) -> None:
        """Add the next piece; an empty one is the last."""
        if not self._over:
            self._waiting.put(piece)

    def end(self) -> None:
        """Drop further pieces after the last read."""
        self._over = True
        try:
            while True:
                self._waiting.get_nowait()
        except Empty:
            pass

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest and not self._over:
            self._rest = self._waiting.get()
            self._over = not self._rest
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
