"""Fills a node's artifact directories with the last whole versions, before an attempt's workers start.

A directory keeps its content if the store has nothing newer: an attempt that returns to its node continues
with the files there. The run's checkpoint is that of the node of rank 0, on every node; of the other kinds
each node has those of its own rank. After an attempt failed at once with its checkpoint, the next one gets
the previous version, until an attempt has saved a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.listed import latest, manifests, read_manifest
from tarmac.artifacts.versions.manifest import Manifest, Version, parse_id
from tarmac.artifacts.versions.order import Order
from tarmac.artifacts.versions.restore import fill
from tarmac.model.errors import NotFound
from tarmac.node.attempt.lost import Lost
from tarmac.node.files import untrusted

_CHECKPOINT = "checkpoint"


class State(NamedTuple):
    """The attempt and rank that last had the directories of a node.

    `checkpoint` is the version placed there that the node does not sync, or that is older than the newest.
    """

    attempt: int
    rank: int
    checkpoint: str | None = None


def restore_inputs(
    blobs: Blobs, order: Order, *, seen: Mapping[str, str], lost: Lost | None = None
) -> list[Version]:
    """Fill directories as required; return the placed versions. Raises Unavailable, NotFound or Broken."""
    state, older = _state(order, lost), _version_before(blobs, order)
    placed: list[Version] = []
    checkpoint: str | None = None
    for kind, directory in order.directories.items():
        if kind == "log" and not order.own_disk:
            continue
        chosen = [older] if older is not None and kind == _CHECKPOINT else None
        manifests = chosen or _manifests_to_place(blobs, order, kind, state)
        if manifests is None:
            continue
        fill(blobs, manifests, Path(directory), seen_at=seen.get(kind, directory))
        placed += [manifest.version for manifest in manifests]
        if kind == _CHECKPOINT and manifests and (order.rank != 0 or chosen):
            checkpoint = manifests[0].version.id
    write_state(order.state, State(attempt=order.attempt, rank=order.rank, checkpoint=checkpoint))
    return placed


def unsynced_kinds(blobs: Blobs, order: Order, lost: Lost) -> list[str]:
    """The kinds whose directories a lost attempt changed last, and whose next attempt continues with them."""
    state = _state(order, lost)
    if state is None or state.attempt != lost.number:
        return []
    return [kind for kind in order.directories if _is_newest(blobs, order, kind, state)]


def placed_checkpoint(blobs: Blobs, order: Order) -> Manifest | None:
    """The checkpoint on this node that another one syncs, or that is not the newest."""
    state, newest = read_state(order.state), _newest(blobs, order, _CHECKPOINT)
    reference = parse_id(state.checkpoint or "") if state and state.attempt == order.attempt else None
    if reference is None or (order.rank != 0 and not order.own_disk):
        return None
    if order.rank == 0 and newest is not None and newest.attempt == order.attempt:
        return None  # it has saved one of its own since
    with suppress(NotFound):
        return read_manifest(blobs, reference.version) if reference.version is not None else None
    return None


def read_state(path: Path) -> State | None:
    """The content of a node's directories; None if no attempt has used them."""
    try:
        record = untrusted.read_object(str(path))
        return State(attempt=int(record["attempt"]), rank=int(record["rank"]), checkpoint=record.get("given"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_state(path: Path, state: State) -> None:
    """Write the current content, in one step."""
    record = {"attempt": state.attempt, "rank": state.rank, "given": state.checkpoint}
    untrusted.replace(str(path), json.dumps(record).encode())


def _manifests_to_place(
    blobs: Blobs, order: Order, kind: str, state: State | None
) -> Sequence[Manifest] | None:
    """The versions to place in a directory; None: leave it unchanged."""
    newest = _newest(blobs, order, kind)
    is_replaced = kind == _CHECKPOINT and order.rejected_by is not None and newest is not None
    if state is not None and _is_newest(blobs, order, kind, state) and not is_replaced:
        return None
    if newest is not None:
        return [newest]
    inputs = input_manifests(blobs, order, kind)
    return inputs if inputs or order.own_disk else None


def _version_before(blobs: Blobs, order: Order) -> Manifest | None:
    """The newest version with another checkpoint than the one with which an attempt failed.

    None if nothing was rejected, there is no earlier version, or a newer checkpoint was saved since.
    """
    if order.rejected_by is None:
        return None
    rejected: Manifest | None = None
    newest_at = 0.0
    for manifest in manifests(blobs, order.run_id, _CHECKPOINT, 0):
        newest_at = newest_at or manifest.saved_at
        if rejected is None and manifest.attempt < order.rejected_by:
            rejected = manifest
        if rejected is not None and newest_at <= rejected.saved_at and 0.0 < manifest.saved_at < newest_at:
            return manifest
    return None


def _state(order: Order, lost: Lost | None) -> State | None:
    """The content of a node's directories; on a shared disk, that of the last attempt."""
    return read_state(order.state) if lost is None or order.own_disk else State(lost.number, order.rank)


def _is_newest(blobs: Blobs, order: Order, kind: str, state: State) -> bool:
    """Whether this node's content is its own, and no later attempt has stored another."""
    if state.rank != order.rank or (kind == _CHECKPOINT and order.rank != 0):
        return False
    newest = _newest(blobs, order, kind)
    return newest is None or state.attempt >= newest.attempt


def _newest(blobs: Blobs, order: Order, kind: str) -> Manifest | None:
    found = latest(blobs, order.run_id, kind, 0 if kind == _CHECKPOINT else order.rank)
    return read_manifest(blobs, found) if found is not None else None


def input_manifests(blobs: Blobs, order: Order, kind: str) -> list[Manifest]:
    """The run's inputs of that kind; raises NotFound for a removed one."""
    return [read_manifest(blobs, version) for version in inputs_of(order.inputs) if version.kind == kind]


def inputs_of(ids: Sequence[str]) -> list[Version]:
    """The versions that a run names as its input; raises NotFound for an unresolved one."""
    found = []
    for text in ids:
        reference = parse_id(text)
        if reference is None or reference.version is None:
            raise NotFound(f"there is no artifact {text!r}")
        found.append(reference.version)
    return found
