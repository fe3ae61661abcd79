"""A store of the server without access from this node: every request passes through the relay of the node.

Opened by `fenced.open_store` for sidecars; `node/host/relay.py` passes the requests on, `store_server`
answers them.

    {"do": "put" | "create", "name", "digest"} with content   {} or {"made": true or false}
    {"do": "get" | "has" | "remove", "name"}                  {"there": true or false}; `get`: and its content
    {"do": "pieces", "prefix"}                                content: JSON [[name, size, changed at], ...]

Every request names the attempt and has its token. {"refused": why} answers a request that will be refused
again, {"down": why} one that may succeed later.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Iterator
from threading import Lock, Thread
from typing import Any, NamedTuple

from tarmac.artifacts.versions.blobs import Piece
from tarmac.artifacts.versions.manifest import Broken
from tarmac.model.errors import Refused, Unavailable
from tarmac.node.host.relay import STORE
from tarmac.node.kernel import sockets
from tarmac.node.wire.connection import Connection, Lost, over_socket, run_over_socket

SCHEME = "relay"
"""The scheme of such a store's URL; its path is the directory that `relay.socket_path` takes."""

ANSWER_S = 60.0
"""The maximum time without data on a connection."""


class Writer(NamedTuple):
    """The client: an attempt, and its secret token."""

    attempt_id: str
    token: str

    @property
    def number(self) -> int:
        """The number of the attempt, also during the last sync of a lost one by its sidecar."""
        return int(self.attempt_id.rpartition(".")[2])


class RelayedBlobs:
    """The store behind the relay at a socket. Raises Refused for actions that an attempt may not (or no
    longer) do.
    """

    def __init__(self, path: str, writer: Writer) -> None:
        self._path = path
        self._writer = writer
        self._connection: Connection | None = None
        self._lock = Lock()

    def put(self, name: str, data: bytes) -> None:
        self._ask("put", data, name=name, digest=hashlib.sha256(data).hexdigest())

    def create(self, name: str, data: bytes) -> bool:
        answer, _ = self._ask("create", data, name=name, digest=hashlib.sha256(data).hexdigest())
        return answer.get("made") is True

    def get(self, name: str) -> bytes | None:
        answer, content = self._ask("get", name=name)
        return content if answer.get("there") is True else None

    def has(self, name: str) -> bool:
        answer, _ = self._ask("has", name=name)
        return answer.get("there") is True

    def remove(self, name: str) -> None:
        self._ask("remove", name=name)

    def pieces(self, prefix: str) -> Iterator[Piece]:
        _, content = self._ask("pieces", prefix=prefix)
        try:
            for name, size_bytes, changed_at in json.loads(content):
                yield Piece(str(name), int(size_bytes), float(changed_at))
        except (ValueError, TypeError) as error:
            raise Broken(f"the list of {prefix} cannot be read: {error}") from error

    def _ask(self, do: str, content: bytes = b"", **fields: str) -> tuple[dict[str, Any], bytes]:
        """One request and its answer."""
        request = {"do": do, "attempt": self._writer.attempt_id, "token": self._writer.token, **fields}
        try:
            stream = self._connected().stream(STORE, {"request": request, "size_bytes": len(content)})
            try:
                stream.send(content)
                stream.finish()
                found = b"".join(iter(lambda: stream.receive(ANSWER_S), b""))
                answer: dict[str, Any] = stream.result(ANSWER_S)
            finally:
                stream.break_off()
        except (Lost, OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unavailable(f"the artifact store cannot be reached through the server: {why}") from error
        if "refused" in answer:
            raise Refused(str(answer["refused"]))
        if "down" in answer:
            raise Unavailable(str(answer["down"]))
        return answer, found

    def _connected(self) -> Connection:
        with self._lock:
            if self._connection is None or self._connection.lost_at is not None:
                made = sockets.connect(self._path, timeout_s=ANSWER_S)
                made.settimeout(None)
                self._connection = over_socket(made)
                weakref.finalize(self, self._connection.close)
                Thread(target=run_over_socket, args=(made, self._connection), daemon=True).start()
            return self._connection
