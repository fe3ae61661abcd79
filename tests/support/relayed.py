"""A node that does not see the server's store, in this process: its relay, its link, and what answers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from tarmac.artifacts.versions.blobs import DirectoryBlobs, begin_store
from tarmac.artifacts.versions.relayed import RelayedBlobs, Writer
from tarmac.artifacts.versions.store_server import Grant, StoreServer
from tarmac.engines.hosts.relaying import store_operation
from tarmac.node.host.relay import STORE, Relays
from tarmac.node.wire.connection import Connection, run_over_socket

StoreOperation = Callable[..., Any]


class Link:
    """The link between a node and the server, both in this process.

    It can be cut, and loses one frame of the node (of the server: `lose_answer`) where a test says so, with
    the connection; then there is a new one. `before` sees each call of a sidecar, `calls` has their names.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        self.lose_at: int | None = None
        self.lose_answer = False
        self.frames = 0
        self._connection: Connection | None = None
        self._begin: Callable[[], None] = lambda: None

    def serve(self, relays: Relays, path: Path, server: StoreServer) -> None:
        """Connect the relay at a socket of a node to the server, also after each loss."""

        def answer(request: Mapping[str, Any], size: int, content: Iterator[bytes]) -> Any:
            self.calls.append(request["do"])
            self.before(request["do"])
            return server.answer(request, size, content)

        def begin() -> None:
            near, far = socket.socketpair()
            node = self._end(near, counted=not self.lose_answer)
            self._connection = node
            self._end(far, counted=self.lose_answer, server=store_operation(answer))
            relays.serve(node, str(path))

        self._begin = begin
        begin()

    @property
    def cut(self) -> bool:
        """Whether there is no connection."""
        return self._connection is None

    @cut.setter
    def cut(self, cut: bool) -> None:
        if cut and self._connection is not None:
            self._connection.close()
            self._connection = None
        elif not cut and self._connection is None:
            self._begin()

    def lose(self, number: int, *, answer: bool) -> None:
        """Lose a frame of one direction, counted from now on."""
        self.cut = True
        self.frames, self.lose_at, self.lose_answer = 0, number, answer
        self.cut = False

    def _end(
        self, found: socket.socket, *, counted: bool, server: StoreOperation | None = None
    ) -> Connection:
        def send(rest: memoryview) -> int:
            if counted:
                self.frames += 1
                if self.frames - 1 == self.lose_at:
                    close()
                    self._begin()
                    raise ConnectionError("this frame is lost")
            return found.send(rest)

        def close() -> None:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)

        find = ({STORE: server} if server is not None else {}).__getitem__
        end = Connection(found.fileno(), find=find, send=send, close=close, accepted=server is None)
        Thread(target=run_over_socket, args=(found, end), daemon=True).start()
        return end


@dataclass
class RelayedStore:
    """A store, and how a node reaches it. `live` are the attempts that may write, by id."""

    store: Path
    socket: Path
    link: Link
    live: dict[str, Grant] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = StoreServer(lambda: self.blobs, self.find_grant)

    @property
    def blobs(self) -> DirectoryBlobs:
        """The store as the server has it."""
        return DirectoryBlobs(self.store)

    def find_grant(self, attempt_id: str, token: str) -> Grant | None:
        """The attempts of these tests carry their id as their token."""
        return self.live.get(attempt_id) if token == f"token of {attempt_id}" else None

    def start(self, run_id: str = "r1", number: int = 1, **more: Any) -> None:
        """The next attempt of a run is the live one from now on."""
        for attempt_id in [key for key, grant in self.live.items() if grant.run_id == run_id]:
            del self.live[attempt_id]
        self.live[f"{run_id}.{number}"] = Grant(run_id=run_id, number=number, **more)

    def at_node(self, attempt_id: str = "r1.1") -> RelayedBlobs:
        """The store as the sidecar of an attempt has it."""
        return RelayedBlobs(str(self.socket), Writer(attempt_id, f"token of {attempt_id}"))

    def content(self) -> dict[str, bytes]:
        """Everything in it."""
        files = [path for path in self.store.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.store)): path.read_bytes() for path in files}


@contextmanager
def relayed_store(place: Path, *, socket: Path | None = None) -> Iterator[RelayedStore]:
    """One with a live attempt r1.1, served while the block lasts."""
    made = RelayedStore(place / "store", socket or place / "node" / "relay.sock", Link())
    made.start()
    begin_store(made.blobs)
    with serving(made, made.socket, made.link):
        yield made


@contextmanager
def serving(store: RelayedStore, socket: Path, link: Link) -> Iterator[None]:
    """A node with its relay at that socket is served over that link while the block lasts."""
    link.serve(Relays(), socket, store.server)
    try:
        yield
    finally:
        link.cut = True
