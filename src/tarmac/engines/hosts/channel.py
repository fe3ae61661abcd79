"""Requests and answers over a stream of bytes, many at a time. Used by `connection` and by links to agents.

The other end is `node/host/serving.py`. Every wait is bounded: each call has a deadline, and the channel is
closed if the other end falls silent.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import Any, BinaryIO

from tarmac.model.errors import Unavailable
from tarmac.node.host import frames

MARGIN_S = 15.0
"""Maximum transmission time of a request and its answer."""

STREAM_S = 120.0
"""How long a stream may pause."""

PIECE_BYTES = 1 << 20


class Channel:
    """One channel, unusable once it is lost. Thread-safe.

    `send` writes as much as is possible now to `descriptor` (BlockingIOError: nothing); `close` ends the
    other end. `on_news` gets unrequested messages.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        send: Callable[[memoryview], int],
        close: Callable[[], None],
        on_news: Callable[[str], None] | None = None,
        margin_s: float = MARGIN_S,
    ) -> None:
        self._descriptor = descriptor
        self._send_now = send
        self._close = close
        self._on_news = on_news
        self._margin_s = margin_s
        self._numbers = count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._lock = Lock()
        self.sending = Lock()
        self.heard_at = time.monotonic()
        """Time of the last message from the other end."""
        self.lost_at: float | None = None
        """When the channel became unusable."""

    def call(self, operation: str, *, timeout_s: float, arguments: Mapping[str, Any]) -> Any:
        """Perform a remote operation. Raises Unavailable, its OSError, and ValueError."""
        number, answer = self._expect()
        began_at = time.monotonic()
        message = {"id": number, "do": operation, "with": dict(arguments)}
        self.write(frames.pack(message), self._margin_s)
        return self._result(number, answer, began_at, timeout_s + self._margin_s)

    def send_code(self, directory: str, digest: str, pieces: Iterator[bytes]) -> None:
        """Send a snapshot of code. Raises as `call`."""
        number, answer = self._expect()
        arguments = {"directory": directory, "digest": digest}
        self.write(frames.pack({"id": number, "do": "take_code", "with": arguments}), self._margin_s)
        for piece in pieces:
            for begin in range(0, len(piece), PIECE_BYTES):
                message = {"id": number, "piece": piece[begin : begin + PIECE_BYTES]}
                self.write(frames.pack(message), STREAM_S)
            if answer.done():
                break  # already present, or refused
        self.write(frames.pack({"id": number, "piece": b""}), STREAM_S)
        self._result(number, answer, time.monotonic(), STREAM_S)

    def read(self, stream: BinaryIO) -> None:
        """Read answers until the stream ends or is invalid."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            while (message := frames.read(stream)) is not None:
                self.heard_at = time.monotonic()
                if "news" in message:
                    if self._on_news is not None:
                        self._on_news(str(message["news"]))
                    continue
                with self._lock:
                    answer = self._waiting.pop(message["id"], None)
                if answer is not None:
                    answer.set_result(message)

    def lose(self, words: str = "") -> None:
        """End the channel, and fail all pending calls."""
        with self._lock:
            self.lost_at = time.monotonic()
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_exception(Unavailable(f"the connection was lost{words and ': '}{words}"))

    def write(self, data: bytes, timeout_s: float) -> None:
        """Write all data; if that fails, close the channel. Raises Unavailable."""
        rest, deadline = memoryview(data), time.monotonic() + timeout_s
        if not self.sending.acquire(timeout=timeout_s):
            raise Unavailable(f"nothing could be sent within {timeout_s:g} s")
        try:
            if self.lost_at is not None:  # its descriptor may belong to another file by now
                raise ConnectionError("it has ended")
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            while rest:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise TimeoutError(f"nothing could be sent within {timeout_s:g} s")
                with suppress(BlockingIOError):
                    rest = rest[self._send_now(rest) :]
        except (OSError, ValueError) as error:
            self._close()
            raise Unavailable(f"the connection was lost: {error}") from None
        finally:
            self.sending.release()

    def _expect(self) -> tuple[int, Future[dict[str, Any]]]:
        number, answer = next(self._numbers), Future[dict[str, Any]]()
        with self._lock:
            if self.lost_at is not None:
                raise Unavailable("the connection was lost")
            self._waiting[number] = answer
        return number, answer

    def _result(self, number: int, answer: Future[dict[str, Any]], began_at: float, timeout_s: float) -> Any:
        try:
            message = answer.result(timeout_s)
        except TimeoutError:
            if self.heard_at < began_at:  # the other end is silent
                self._close()
            raise Unavailable(f"no answer within {timeout_s:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in message:
            code, text, path = message["error"]
            raise OSError(code, text, path)
        if "refused" in message:
            raise ValueError(message["refused"])
        return message["result"]
