"""Fills a node's artifact directories with the last whole versions, before an attempt's workers start.

A directory keeps its content where the store holds nothing newer: an attempt that comes back to its node goes
on with what it left there. The run's checkpoint is that of the node of rank 0, on every node; of the other
kinds each node has those of its own rank.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.listed import latest, read_manifest
from tarmac.artifacts.versions.manifest import Manifest, Version, parse_id
from tarmac.artifacts.versions.order import Order
from tarmac.artifacts.versions.restore import fill
from tarmac.model.errors import NotFound
from tarmac.node.attempt.lost import Lost
from tarmac.node.files import untrusted

_CHECKPOINT = "checkpoint"


class State(NamedTuple):
    """The attempt and rank that last had the directories of a node; `checkpoint`: the one placed there."""

    attempt: int
    rank: int
    checkpoint: str | None = None


def restore_inputs(
    blobs: Blobs, order: Order, *, seen: Mapping[str, str], lost: Lost | None = None
) -> list[Version]:
    """Fill what has to be filled; which versions were placed. Raises Unavailable, NotFound or Broken."""
    state = _state(order, lost)
    placed: list[Version] = []
    checkpoint: str | None = state.checkpoint if state is not None else None
    for kind, directory in order.directories.items():
        if kind == "log" and not order.own_disk:
            continue
        manifests = _manifests_to_place(blobs, order, kind, state)
        if manifests is None:
            continue
        fill(blobs, manifests, Path(directory), seen_at=seen.get(kind, directory))
        placed += [manifest.version for manifest in manifests]
        if kind == _CHECKPOINT and order.rank != 0:
            checkpoint = manifests[0].version.id if manifests else None
    write_state(order.state, State(attempt=order.attempt, rank=order.rank, checkpoint=checkpoint))
    return placed


def unsynced_kinds(blobs: Blobs, order: Order, lost: Lost) -> list[str]:
    """The kinds whose directories a lost attempt changed last, and whose next attempt goes on with them."""
    state = _state(order, lost)
    if state is None or state.attempt != lost.number:
        return []
    return [kind for kind in order.directories if _is_newest(blobs, order, kind, state)]


def placed_checkpoint(blobs: Blobs, order: Order) -> Manifest | None:
    """The checkpoint of rank 0's node that was placed on this one; the node of rank 0 syncs it."""
    state = read_state(order.state)
    reference = parse_id(state.checkpoint) if state is not None and state.checkpoint else None
    if order.rank == 0 or not order.own_disk or reference is None or reference.number is None:
        return None
    version = Version(
        run_id=reference.run_id, kind=reference.kind, rank=reference.rank, number=reference.number
    )
    try:
        return read_manifest(blobs, version)
    except NotFound:
        return None


def read_state(path: Path) -> State | None:
    """What the directories of a node hold; None where no attempt has used them."""
    try:
        record = untrusted.read_object(str(path))
        return State(attempt=int(record["attempt"]), rank=int(record["rank"]), checkpoint=record.get("given"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_state(path: Path, state: State) -> None:
    """Write what they hold now, in one step."""
    record = {"attempt": state.attempt, "rank": state.rank, "given": state.checkpoint}
    untrusted.replace(str(path), json.dumps(record).encode())


def _manifests_to_place(
    blobs: Blobs, order: Order, kind: str, state: State | None
) -> Sequence[Manifest] | None:
    """What a directory is to hold; None: leave it as it is."""
    if state is not None and _is_newest(blobs, order, kind, state):
        return None
    newest = _newest(blobs, order, kind)
    if newest is not None:
        return [newest]
    inputs = input_manifests(blobs, order, kind)
    return inputs if inputs or order.own_disk else None


def _state(order: Order, lost: Lost | None) -> State | None:
    """What the directories of a node hold; those on a disk that all share hold what the last attempt left."""
    state = read_state(order.state)
    if lost is None or order.own_disk:
        return state
    checkpoint = state.checkpoint if state is not None else None
    return State(attempt=lost.number, rank=order.rank, checkpoint=checkpoint)


def _is_newest(blobs: Blobs, order: Order, kind: str, state: State) -> bool:
    """Whether what this node has is its own, and no later attempt has kept another."""
    if state.rank != order.rank or (kind == _CHECKPOINT and order.rank != 0):
        return False
    newest = _newest(blobs, order, kind)
    return newest is None or state.attempt >= newest.attempt


def _newest(blobs: Blobs, order: Order, kind: str) -> Manifest | None:
    found = latest(blobs, order.run_id, kind, 0 if kind == _CHECKPOINT else order.rank)
    return read_manifest(blobs, found) if found is not None else None


def input_manifests(blobs: Blobs, order: Order, kind: str) -> list[Manifest]:
    """What a run names as its input of that kind; raises NotFound for what is gone."""
    return [read_manifest(blobs, version) for version in inputs_of(order.inputs) if version.kind == kind]


def inputs_of(ids: Sequence[str]) -> list[Version]:
    """The versions that a run names as its input; raises NotFound for what was never pinned down."""
    found = []
    for text in ids:
        reference = parse_id(text)
        if reference is None or reference.number is None:
            raise NotFound(f"there is no artifact {text!r}")
        found.append(
            Version(
                run_id=reference.run_id, kind=reference.kind, rank=reference.rank, number=reference.number
            )
        )
    return found
