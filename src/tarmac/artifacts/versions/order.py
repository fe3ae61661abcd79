"""The order of a sidecar, from attempt.json: its store, its directories, its interval."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tarmac.artifacts.versions.relayed import Writer
from tarmac.node.attempt.document import ArtifactSync, Unreadable, read_document
from tarmac.node.attempt.paths import AttemptPaths
from tarmac.node.processes.lease import Lease, lease_of


class Order(NamedTuple):
    """One node's part. `state` is a file beside the directories that describes their content.

    `sync` has the settings that are the same for all nodes.
    """

    run_id: str
    attempt: int
    writer: Writer
    node: str
    rank: int
    address: str
    own_disk: bool
    directories: Mapping[str, str]
    state: Path
    sync: ArtifactSync
    lease: Lease


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
        node=node,
        rank=part.rank,
        address=part.address,
        own_disk=part.own_disk,
        directories=part.artifacts,
        state=Path(part.artifact_state),
        sync=sync,
        lease=lease_of(document, part, paths.node(node)),
    )
