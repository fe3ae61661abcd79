"""A snapshot on the disk: one small file that lists a tree, and the place of each content in the packs.

Written by `store.py`; read by the runner (`node/hooks/code.py`), which creates the tree from it, and when
snapshots are removed by age. The file is named by the digest of the tree; it exists completely or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tarmac.artifacts.code.packs import Place
from tarmac.artifacts.code.tree import Entry, Kind, line_of
from tarmac.artifacts.durable import flush_directory
from tarmac.node.files.codestore import PARTIAL_PREFIX, is_digest

VERSION = 1
_EARLIEST_NS = 315_532_800 * 10**9  # 1980: the earliest time in a zip file


@dataclass(frozen=True, slots=True)
class Summary:
    """The totals of a snapshot."""

    size_bytes: int
    packs: frozenset[str]


def write_snapshot(root: Path, digest: str, entries: Sequence[Entry], places: Mapping[str, Place]) -> None:
    """Write a snapshot to the disk; `places` has the place of each file's content, by path."""
    packs = sorted({place.pack for place in places.values()})
    size_bytes = sum(place.size_bytes for place in places.values())
    now_ns = time.time_ns()
    lines = [json.dumps({"tarmac": VERSION, "bytes": size_bytes, "packs": packs})]
    lines += [json.dumps(_line(entry, places, now_ns), separators=(",", ":")) for entry in entries]
    descriptor, partial = tempfile.mkstemp(prefix=PARTIAL_PREFIX, dir=root)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # not a leftover
            file.write("\n".join(lines) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(partial).rename(root / digest)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    flush_directory(root)


def summary(path: Path) -> Summary:
    """The totals of a snapshot; raises OSError if it does not exist."""
    with path.open(encoding="ascii") as file:
        head = json.loads(file.readline())
    return Summary(head["bytes"], frozenset(head["packs"]))


def snapshots(root: Path) -> Iterator[Path]:
    """Every snapshot under a root."""
    return (path for path in root.iterdir() if is_digest(path.name))


def _line(entry: Entry, places: Mapping[str, Place], now_ns: int) -> list[object]:
    if entry.kind is not Kind.FILE:
        return line_of(entry)
    place = places[entry.path]
    dated_ns = min(max(entry.mtime_ns, _EARLIEST_NS), now_ns)
    return line_of(entry, place.pack, place.offset, place.size_bytes, dated_ns)
