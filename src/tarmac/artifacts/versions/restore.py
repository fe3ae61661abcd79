"""Fills a node's artifact directories with the last whole versions, before an attempt's workers start.

A directory keeps its content if the store has nothing newer: an attempt that returns to its node continues
with the files there. The run's checkpoint is that of the node of rank 0, on every node; of the other kinds
each node has those of its own rank. After an attempt failed at once with its checkpoint, the next one gets
the previous version, until an attempt has saved a newer one. At the end `mend` repairs truncated files.
Every piece is checked against its digest; links come last, so that nothing is ever written through one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tarmac.artifacts.versions import manifest as stored
from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.fenced import Order
from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, LINK, Entry, Manifest, Version
from tarmac.model.errors import NotFound
from tarmac.node.attempt.claims import Lost
from tarmac.node.attempt.protocol import TORN, UNFINISHED
from tarmac.node.files import untrusted

THREADS = 4

_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def fill(blobs: Blobs, manifests: Sequence[Manifest], root: Path, *, seen_at: str) -> None:
    """Make `root` hold exactly these versions. `seen_at` is the path under which programs know it.

    The directory itself remains: it may be mounted elsewhere. May be interrupted at any point and repeated.
    """
    clear(root)
    entries = {entry.path: entry for manifest in manifests for entry in manifest.entries}
    with ThreadPoolExecutor(THREADS) as pool:
        for entry in entries.values():
            path = root / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.kind == DIRECTORY:
                path.mkdir(exist_ok=True)
            elif entry.kind == FILE:
                _fill_file(blobs, entry, path, pool)
    for entry in entries.values():
        if entry.kind == LINK:
            (root / entry.path).symlink_to(_target(entry, seen_at))
    for entry in reversed(entries.values()):
        if entry.kind == DIRECTORY:
            (root / entry.path).chmod(entry.mode | 0o700)


def mend(blobs: Blobs, root: Path, *, seen_at: str, torn: Sequence[str], put_back: Sequence[Entry]) -> None:
    """Move truncated files away, and put the content of the last version in their place.

    The moved files remain in `.torn` until the next time: they may be useful to a person, never to a program.
    """
    aside = root / TORN
    shutil.rmtree(aside, ignore_errors=True)
    drafts = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for number, entry in enumerate(put_back):
            if entry.kind == FILE:
                drafts[entry.path] = draft = root / f"{UNFINISHED}back.{number}"
                draft.unlink(missing_ok=True)
                _fill_file(blobs, entry, draft, pool)
    for path in torn:
        if os.path.lexists(root / path):
            (aside / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).replace(aside / path)
    for entry in sorted(put_back, key=lambda entry: entry.path):
        place = root / entry.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == FILE:
            drafts[entry.path].replace(place)
        elif entry.kind == DIRECTORY:
            place.mkdir(exist_ok=True)
        elif entry.kind == LINK:
            place.symlink_to(_target(entry, seen_at))


def clear(root: Path) -> None:
    """Remove everything in a directory."""
    root.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _target(entry: Entry, seen_at: str) -> str:
    """The target of a link, for programs that know the directory by the path `seen_at`."""
    return os.path.join(seen_at, entry.target) if entry.inside else entry.target  # noqa: PTH118


def _fill_file(blobs: Blobs, entry: Entry, path: Path, pool: ThreadPoolExecutor) -> None:
    handle = os.open(path, _WRITE_NEW, 0o600)
    try:
        starts = [0]
        for chunk in entry.chunks:
            starts.append(starts[-1] + chunk.size_bytes)

        def write(number: int) -> None:
            data = stored.read_chunk(blobs, entry.chunks[number])
            while data:
                written = os.pwrite(handle, data, starts[number])
                starts[number] += written
                data = data[written:]

        futures = [pool.submit(write, number) for number in range(len(entry.chunks))]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()
            for future in futures:
                if not future.cancelled():
                    future.exception()
        os.fchmod(handle, entry.mode)
        os.utime(handle, ns=(entry.mtime_ns, entry.mtime_ns))
    finally:
        os.close(handle)


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
    for kind, directory in order.part.artifacts.items():
        if kind == "log" and not order.part.own_disk:
            continue
        chosen = [older] if older is not None and kind == _CHECKPOINT else None
        manifests = chosen or _manifests_to_place(blobs, order, kind, state)
        if manifests is None:
            continue
        fill(blobs, manifests, Path(directory), seen_at=seen.get(kind, directory))
        placed += [manifest.version for manifest in manifests]
        if kind == _CHECKPOINT and manifests and (order.part.rank != 0 or chosen):
            checkpoint = manifests[0].version.id
    record = {"attempt": order.attempt, "rank": order.part.rank, "given": checkpoint}
    untrusted.replace(str(order.state), json.dumps(record).encode())
    return placed


def unsynced_kinds(blobs: Blobs, order: Order, lost: Lost) -> list[str]:
    """The kinds whose directories a lost attempt changed last, and whose next attempt continues with them."""
    state = _state(order, lost)
    if state is None or state.attempt != lost.number:
        return []
    return [kind for kind in order.part.artifacts if _is_newest(blobs, order, kind, state)]


def placed_checkpoint(blobs: Blobs, order: Order) -> Manifest | None:
    """The checkpoint on this node that another one syncs, or that is not the newest."""
    state, newest = read_state(order.state), _newest(blobs, order, _CHECKPOINT)
    placed = stored.parse_id(state.checkpoint or "") if state and state.attempt == order.attempt else None
    if placed is None or (order.part.rank != 0 and not order.part.own_disk):
        return None
    if order.part.rank == 0 and newest is not None and newest.attempt == order.attempt:
        return None  # it has saved one of its own since
    with suppress(NotFound):
        return stored.read_manifest(blobs, placed)
    return None


def read_state(path: Path) -> State | None:
    """The content of a node's directories; None if no attempt has used them."""
    try:
        record = untrusted.read_object(str(path))
        return State(attempt=int(record["attempt"]), rank=int(record["rank"]), checkpoint=record.get("given"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _manifests_to_place(
    blobs: Blobs, order: Order, kind: str, state: State | None
) -> Sequence[Manifest] | None:
    """The versions to place in a directory; None: leave it unchanged."""
    newest = _newest(blobs, order, kind)
    is_replaced = kind == _CHECKPOINT and order.sync.rejected_by is not None and newest is not None
    if state is not None and _is_newest(blobs, order, kind, state) and not is_replaced:
        return None
    if newest is not None:
        return [newest]
    inputs = input_manifests(blobs, order, kind)
    return inputs if inputs or order.part.own_disk else None


def _version_before(blobs: Blobs, order: Order) -> Manifest | None:
    """The newest version with another checkpoint than the one with which an attempt failed.

    None if nothing was rejected, there is no earlier version, or a newer checkpoint was saved since.
    """
    if order.sync.rejected_by is None:
        return None
    rejected: Manifest | None = None
    newest_at = 0.0
    for manifest in stored.readable_manifests(blobs, order.run_id, _CHECKPOINT, 0):
        newest_at = newest_at or manifest.saved_at
        if rejected is None and manifest.attempt < order.sync.rejected_by:
            rejected = manifest
        if rejected is not None and newest_at <= rejected.saved_at and 0.0 < manifest.saved_at < newest_at:
            return manifest
    return None


def _state(order: Order, lost: Lost | None) -> State | None:
    """The content of a node's directories; on a shared disk, that of the last attempt."""
    return (
        read_state(order.state)
        if lost is None or order.part.own_disk
        else State(lost.number, order.part.rank)
    )


def _is_newest(blobs: Blobs, order: Order, kind: str, state: State) -> bool:
    """Whether this node's content is its own, and no later attempt has stored another."""
    if state.rank != order.part.rank or (kind == _CHECKPOINT and order.part.rank != 0):
        return False
    newest = _newest(blobs, order, kind)
    return newest is None or state.attempt >= newest.attempt


def _newest(blobs: Blobs, order: Order, kind: str) -> Manifest | None:
    found = stored.latest(blobs, order.run_id, kind, 0 if kind == _CHECKPOINT else order.part.rank)
    return stored.read_manifest(blobs, found) if found is not None else None


def input_manifests(blobs: Blobs, order: Order, kind: str) -> list[Manifest]:
    """The run's inputs of that kind; raises NotFound for a removed one."""
    return [
        stored.read_manifest(blobs, version)
        for version in inputs_of(order.sync.inputs)
        if version.kind == kind
    ]


def inputs_of(ids: Sequence[str]) -> list[Version]:
    """The versions that a run names as its input; raises NotFound for an unresolved one."""
    found = []
    for text in ids:
        version = stored.parse_id(text)
        if version is None or not version.number:
            raise NotFound(f"there is no artifact {text!r}")
        found.append(version)
    return found
