"""Serves the store of artifacts to the sidecars of a node that does not see it, over the way to that node.

Begun by an engine for each such node while attempts run there. The node never calls the server: requests are
taken from it (`node/host/relay.py`), `answer` does what they ask (`artifacts/versions/store_server.py`), and
the answers are handed in. Content goes in pieces, so that nothing else on the way waits long.
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
"""How long one question waits for requests."""

PIECE_S = 60.0
AGAIN_S = 1.0
THREADS = 4
"""So many requests of a node are worked on at once."""

Answer = tuple[Mapping[str, Any], Iterator[bytes]]
AnswerRequest = Callable[[Mapping[str, Any], int, Iterator[bytes]], Answer]
"""Does what a request asks, with so many bytes of content in pieces: the answer, and its content."""


class Channel(Protocol):
    """The way to a node: `engines.hosts.host.Reach`, or any that has operations done there."""

    def call(self, operation: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Have an operation done. Raises Unavailable where the node cannot be reached, OSError."""
        ...


class Relaying:
    """The service for one node; `path` is the socket there. `close` ends it, in the middle of anything.

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
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End it; does not wait for what is under way."""
        self._over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        """Take requests; after a failure as another session, since nobody knows what was lost."""
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
        """Answer one request; where that fails on the way, who asked learns of it and asks again."""
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
            pass  # who asks sends everything before it listens
        try:
            begin = next(found, b"")
            for piece in chain(found, (None,)):
                more = piece is not None
                self._hand_in(number, answer, begin, more=more)
                begin = piece or b""
        except Unavailable as error:
            self._hand_in(number, {"down": str(error)}, b"", more=False)

    def _content(self, request: Mapping[str, Any]) -> Iterator[bytes]:
        """What came with a request; raises Unavailable where that ends early."""
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
