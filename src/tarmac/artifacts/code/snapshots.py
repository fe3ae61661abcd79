"""A snapshot on the disk: one small file that lists a tree, and the place of each content in the packs.

Written, streamed and compared for `store.py`; read by the runner (`node/hooks/code.py`), which creates the
tree from it, and when snapshots are removed by age. The file is named by the digest of the tree; it exists
completely or not at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tarmac.artifacts.code.packs import Place
from tarmac.artifacts.code.tree import Entry, Kind, line_of
from tarmac.artifacts.durable import flush_directory
from tarmac.node.files.codestore import PACK_SUFFIX, PACKS, PARTIAL_PREFIX, is_digest

VERSION = 1
_CHUNK_BYTES = 1 << 20
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


def bundle(snapshot: Path, packs: Path) -> Iterator[bytes]:
    """The stream, piece by piece; raises OSError if the snapshot, or one of its packs, does not exist."""
    own = f"{snapshot.name}{PACK_SUFFIX}"
    places: dict[tuple[str, int, int], int] = {}
    end = 0
    lines = []
    with snapshot.open(encoding="ascii") as file:
        head = json.loads(next(file))
        for line in file:
            entry = json.loads(line)
            if entry[0] == "f":
                place = (entry[3], entry[4], entry[5])
                if place not in places:
                    places[place] = end
                    end += entry[5]
                entry[3:5] = own, places[place]
            lines.append(json.dumps(entry, separators=(",", ":")))
    listing = "\n".join([json.dumps({**head, "packs": [own]}), *lines, ""]).encode("ascii")
    yield b"%d %d\n" % (len(listing), end) + listing
    for pack, offset, size_bytes in places:
        yield from _content(packs / pack, offset, size_bytes)


_Entries = dict[str, list[Any]]


class Change(StrEnum):
    """The kind of change of a file."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """A file or link that differs between two snapshots."""

    path: str
    change: Change


def code_changes(root: Path, before: str | None, after: str | None) -> list[CodeChange]:
    """The changes between two snapshots below `root`, by their digests (None: no code), in order of paths.

    A directory counts by its content. Raises FileNotFoundError if a snapshot was removed.
    """
    old, new = _entries(root, before), _entries(root, after)
    found = []
    for path in sorted(old.keys() | new.keys()):
        if path not in old:
            found.append(CodeChange(path=path, change=Change.ADDED))
        elif path not in new:
            found.append(CodeChange(path=path, change=Change.REMOVED))
        elif before != after and not _same(root / PACKS, old[path], new[path]):
            found.append(CodeChange(path=path, change=Change.CHANGED))
    return found


def _entries(root: Path, digest: str | None) -> _Entries:
    if digest is None:
        return {}
    with (root / digest).open(encoding="ascii") as file:
        next(file)
        entries = [json.loads(line) for line in file]
    return {entry[2]: entry for entry in entries if entry[0] != "d"}


def _same(packs: Path, one: list[Any], other: list[Any]) -> bool:
    """Whether two entries are equal; contents are compared only if they are in two places."""
    if one[0] != "f" or other[0] != "f":
        return one[:3] == other[:3]
    if one[1] != other[1] or one[5] != other[5]:
        return False
    if one[3:5] == other[3:5]:
        return True
    contents = (_content(packs / entry[3], entry[4], entry[5]) for entry in (one, other))
    return all(first == second for first, second in zip(*contents, strict=True))


def _content(pack: Path, offset: int, size_bytes: int) -> Iterator[bytes]:
    with pack.open("rb") as file:
        file.seek(offset)
        for begin in range(0, size_bytes, _CHUNK_BYTES):
            yield file.read(min(size_bytes - begin, _CHUNK_BYTES))
