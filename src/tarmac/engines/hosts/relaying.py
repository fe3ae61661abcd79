"""Serves the store of artifacts to the sidecars of a node that does not see it, over the way to that node.

An engine starts it for each such node while attempts run there. The node never calls the server: this module
fetches requests from it (`node/host/relay.py`), `answer` performs them
(`artifacts/versions/store_server.py`), and this module returns the answers. Content is split into pieces, so
that other messages wait only briefly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from threading import Event, Thread
from typing import Any, Protocol

from tarmac.model.errors import Unavailable

WAIT_S = 10.0
"""How long one call waits for requests."""

PIECE_S = 60.0
AGAIN_S = 1.0
THREADS = 4
"""Maximum number of requests of a node handled at once."""

Answer = tuple[Mapping[str, Any], Iterator[bytes]]
AnswerRequest = Callable[[Mapping[str, Any], int, Iterator[bytes]], Answer]
"""Performs a request with its content, a number of bytes in pieces: returns the answer, and its content."""


class Channel(Protocol):
    """The way to a node: `engines.hosts.host.Reach`, or any other that performs operations there."""

    def call(self, operation: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Perform an operation. Raises Unavailable if the node is unreachable, OSError."""
        ...


class Relaying:
    """The service for one node; `path` is the socket there. `close` ends it at any time.

    After a failure it waits for `again_s` before it takes requests again.
    """

    def __init__(
        self, channel: Channel, path: str, answer: AnswerRequest, *, again_s: float = AGAIN_S
    ) -> None:
        self._channel = channel
        self._path = path
        self._answer = answer
        self._again_s = again_s
        self._over = Event()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="relay")
        self._thread = Thread(target=self._run, name="relay", daemon=True)

    def start(self) -> None:
        """Start the service."""
        self._thread.start()

    def close(self) -> None:
        """End the service, without waiting for current requests."""
        self._over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        """Take requests; after a failure in a new session, because messages may be lost."""
        while not self._over.is_set():
            session = os.urandom(8).hex()
            with suppress(Unavailable, OSError, ValueError):
                while not self._over.is_set():
                    for request in self._call("relay_take", session=session, wait_s=WAIT_S):
                        self._submit(request)
            self._over.wait(self._again_s)

    def _submit(self, request: Mapping[str, Any]) -> None:
        with suppress(RuntimeError):  # closed meanwhile
            self._pool.submit(self._serve, request)

    def _serve(self, request: Mapping[str, Any]) -> None:
        """Answer one request; if the transfer fails, the sidecar is notified and repeats it."""
        try:
            self._answer_one(request)
        except (Unavailable, OSError, ValueError):
            with suppress(Unavailable, OSError, ValueError):
                self._call("relay_break_off", number=request["id"])

    def _answer_one(self, request: Mapping[str, Any]) -> None:
        number = request["id"]
        content = self._content(request)
        answer, found = self._answer(request["request"], request["size"], content)
        for _ in content:
            pass  # the sidecar sends everything before it reads
        try:
            begin = next(found, b"")
            for piece in chain(found, (None,)):
                more = piece is not None
                self._hand_in(number, answer, begin, more=more)
                begin = piece or b""
        except Unavailable as error:
            self._hand_in(number, {"down": str(error)}, b"", more=False)

    def _content(self, request: Mapping[str, Any]) -> Iterator[bytes]:
        """The content of a request; raises Unavailable if it ends early."""
        if request["content"]:
            yield request["content"]
            return
        left = request["size"]
        while left > 0:
            piece = self._call("relay_read", number=request["id"])
            if not piece:
                raise Unavailable("the content of a request ends early")
            left -= len(piece)
            yield piece

    def _hand_in(self, number: int, answer: Mapping[str, Any], piece: bytes, *, more: bool) -> None:
        self._call("relay_answer", number=number, answer=dict(answer), piece=piece, more=more)

    def _call(self, operation: str, **arguments: Any) -> Any:
        return self._channel.call(operation, timeout_s=PIECE_S, path=self._path, **arguments)
