"""A node that does not see the server's store, in this process: its relay, its link, and what answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.artifacts.versions.blobs import DirectoryBlobs, begin_store
from tarmac.artifacts.versions.relayed import RelayedBlobs, Writer
from tarmac.artifacts.versions.store_server import Grant, StoreServer
from tarmac.engines.hosts.relaying import Relaying
from tarmac.model.errors import Unavailable
from tarmac.node.host import operations


class Link:
    """The way to a node. It can be cut, and loses one call where a test says so; `before` sees each call."""

    def __init__(self) -> None:
        self.cut = False
        self.calls: list[str] = []
        self.lose_at: int | None = None
        self.lose_answer = False
        self.before: Callable[[str], None] = lambda _: None
        self._lock = Lock()

    def call(self, operation: str, *, timeout_s: float, **arguments: Any) -> Any:
        with self._lock:
            self.calls.append(operation)
            lost = len(self.calls) - 1 == self.lose_at
        self.before(operation)
        if self.cut or (lost and not self.lose_answer):
            raise Unavailable("the link is down")
        result = getattr(operations, operation)(**arguments)
        if self.cut or lost:
            raise Unavailable("the link is down")
        return result


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
    relaying = Relaying(link, str(socket), store.server.answer, again_s=0.01)
    operations.relay_take(str(socket), "", wait_s=0.0)  # it listens
    relaying.start()
    try:
        yield
    finally:
        link.cut = True
        relaying.close()
