"""A store that nodes access directly, even an attempt that is cut off from the server: permission to write.

Opened for sidecars by `open_store`, from their `Order` in attempt.json: store, directories, interval. Without
a server to ask, an attempt writes a mark before its first action (`fences/RUN/NUMBER`), and makes no version
after a later attempt has written a mark, nor after its lease. The check and the new version are two steps: if
a mark is written between them, the version may still appear.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.blobs import Blobs, Piece
from tarmac.artifacts.versions.relayed import SCHEME, RelayedBlobs, Writer
from tarmac.model.errors import Refused
from tarmac.node.attempt.document import ArtifactSync, NodeLaunch, RunsAs, Unreadable, read_document
from tarmac.node.attempt.protocol import AttemptPaths
from tarmac.node.host.relay import socket_path
from tarmac.node.kernel.system_users import act_as, as_server, find
from tarmac.node.processes.lease import Lease


class Order(NamedTuple):
    """One node's part. `state` is a file beside the directories of the part that describes their content.

    `sync` has the settings that are the same for all nodes. `runs_as`: the directories are that user's.
    """

    run_id: str
    attempt: int
    writer: Writer
    part: NodeLaunch
    state: Path
    sync: ArtifactSync
    lease: Lease
    runs_as: RunsAs | None = None

    def as_user(self) -> Order:
        """Use the directories with the rights of their system user from now on, and no way through others.

        Open handles name them: the user may not pass the tarmac home.
        """
        if self.runs_as is None:
            return self
        handles: dict[Path, int] = {}

        def opened(path: Path) -> str:
            if path.parent not in handles:
                handles[path.parent] = os.open(path.parent, _PLACE)
            return f"/proc/self/fd/{handles[path.parent]}/{path.name}"

        artifacts = {kind: opened(Path(path)) for kind, path in self.part.artifacts.items()}
        state = Path(opened(self.state))
        act_as(find(*self.runs_as), as_runner=False)
        return self._replace(part=self.part._replace(artifacts=artifacts), state=state)


def read_order(attempt_directory: Path, node: str) -> Order:
    """The order of a node; raises Unreadable for an attempt that has none."""
    paths = AttemptPaths(str(attempt_directory))
    document = read_document(paths.description)
    part, sync = document.part(node), document.sync
    if sync is None or part.artifact_state is None:
        raise Unreadable(f"nothing is kept of attempt {document.attempt_id}")
    return Order(
        run_id=document.run_id,
        attempt=document.number,
        writer=Writer(document.attempt_id, document.token),
        part=part,
        state=Path(part.artifact_state),
        sync=sync,
        lease=Lease(document, part, paths.node(node)),
        runs_as=document.runs_as,
    )


_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

FENCES = "fences"


def open_store(order: Order) -> Blobs:
    """The store of a sidecar's order. Raises InvalidInput, and Unavailable."""
    parts = urlsplit(order.sync.store)
    if parts.scheme == SCHEME:
        relayed = RelayedBlobs(socket_path(unquote(parts.path), order.part.address), order.writer)
        return ServerBlobs(relayed)
    with as_server():
        blobs = open_blobs(order.sync.store)
    return ServerBlobs(blobs) if order.lease.left_s() is None else FencedBlobs(blobs, order)


class ServerBlobs:
    """The store, used with the rights of the server, also by a sidecar that reads files as a system user."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    @as_server()
    def put(self, name: str, data: bytes) -> None:
        self._blobs.put(name, data)

    @as_server()
    def create(self, name: str, data: bytes) -> bool:
        return self._blobs.create(name, data)

    @as_server()
    def get(self, name: str) -> bytes | None:
        return self._blobs.get(name)

    @as_server()
    def has(self, name: str) -> bool:
        return self._blobs.has(name)

    @as_server()
    def remove(self, name: str) -> None:
        self._blobs.remove(name)

    @as_server()
    def pieces(self, prefix: str) -> Iterator[Piece]:
        return iter(list(self._blobs.pieces(prefix)))


class FencedBlobs(ServerBlobs):
    """The store for one attempt of a run. Raises Refused for a version that would be invalid."""

    def __init__(self, blobs: Blobs, order: Order) -> None:
        super().__init__(blobs)
        self._order = order
        self._marked = False

    def create(self, name: str, data: bytes) -> bool:
        self._check()
        return super().create(name, data)

    def pieces(self, prefix: str) -> Iterator[Piece]:
        if not self._marked:  # the attempt continues from the listed versions
            super().create(self._mark(self._order.writer.number), b"1")
            self._marked = True
        return super().pieces(prefix)

    def _check(self) -> None:
        order, number, left_s = self._order, self._order.writer.number, self._order.lease.left_s()
        if left_s is not None and left_s <= 0:
            raise Refused(f"the lease of attempt {number} has expired: another one may be live")
        own = self._mark(number)
        if any(piece.name > own for piece in super().pieces(f"{FENCES}/{order.run_id}")):
            raise Refused(f"attempt {number} is not the live one of its run: a later one has begun")

    def _mark(self, number: int) -> str:
        return f"{FENCES}/{self._order.run_id}/{number:09d}"
