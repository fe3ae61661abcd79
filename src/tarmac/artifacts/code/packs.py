"""Contents of files, each stored once, many in one file: a pack. Written by snapshots and by uploads.

A pack contains the contents one after another, then its index, then a footer. It is written under a temporary
name, flushed once and renamed: a pack exists completely or not at all, for any number of contents. Nodes copy
straight out of packs, at the places that a snapshot names.

A snapshot is one small file that lists a tree, and the place of each content in the packs. It is written,
streamed and compared for `store.py`; read by the runner (`node/hooks/code.py`), which creates the tree from
it, and when snapshots are removed by age. The file is named by the digest of the tree.
"""

import fcntl
import hashlib
import json
import os
import struct
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Self

from tarmac.api.files import CodeChange
from tarmac.artifacts.code.tree import Entry, Kind, line_of
from tarmac.node.files.codestore import PACK_SUFFIX, PACKS, PARTIAL_PREFIX, is_digest
from tarmac.node.kernel.handles import flush, locked

_MAGIC = b"tarmacP1"
_RECORD = struct.Struct(">32sQQ")
_FOOTER = struct.Struct(">Q8s")

VERSION = 1
_CHUNK_BYTES = 1 << 20

LARGE_BYTES = 8 << 20
"""The size from which a content is sent to a site on its own, once for all snapshots."""

_EARLIEST_NS = 315_532_800 * 10**9  # 1980: the earliest time in a zip file


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a content: its pack, its offset and its number of bytes."""

    pack: str
    offset: int
    size_bytes: int


class PackWriter:
    """A pack under construction: `write` pieces of a content, then `keep` or `drop` it.

    Used in a `with` block. The lock on its file distinguishes an active pack from a leftover.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        descriptor, name = tempfile.mkstemp(prefix=PARTIAL_PREFIX, dir=directory)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._path = Path(name)
        self._file = os.fdopen(descriptor, "wb", buffering=1 << 20)
        self._records: dict[str, tuple[int, int]] = {}
        self._began = 0
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        self._file.close()

    def write(self, chunk: bytes) -> None:
        """The next piece of the current content."""
        self._file.write(chunk)
        self._end += len(chunk)

    def keep(self, content: str) -> int:
        """Assign the data written since the last call to the content of this hash; returns its size."""
        size_bytes = self._end - self._began
        if content in self._records:
            self.drop()
        else:
            self._records[content] = (self._began, size_bytes)
            self._began = self._end
        return size_bytes

    def drop(self) -> None:
        """Discard the data of the current content: it is stored already, or is invalid."""
        self._file.seek(self._began)
        self._file.truncate()
        self._end = self._began

    def finish(self) -> Mapping[str, Place]:
        """Write the pack to the disk under its name; returns its contents. A pack without contents is not
        stored.
        """
        if not self._records:
            return {}
        index = b"".join(
            _RECORD.pack(bytes.fromhex(content), offset, size_bytes)
            for content, (offset, size_bytes) in self._records.items()
        )
        self._file.write(index)
        self._file.write(_FOOTER.pack(len(self._records), _MAGIC))
        self._file.flush()
        os.fsync(self._file.fileno())
        name = hashlib.sha256(index).hexdigest()[:40] + PACK_SUFFIX
        self._path.rename(self._directory / name)
        flush(self._directory)
        return {content: Place(name, *record) for content, record in self._records.items()}


class Packs:
    """All packs of a directory, and the place of each content. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep_partials(directory)
        self._lock = Lock()
        self._places: dict[str, Place] = {}
        for path in sorted(directory.glob(f"*{PACK_SUFFIX}")):
            self._places.update(_contents(path))

    def place(self, content: str) -> Place | None:
        """The place of the content of this hash, if it is stored."""
        with self._lock:
            return self._places.get(content)

    def contents_at(self, places: Collection[Place]) -> dict[Place, str]:
        """The contents at these places."""
        with self._lock:
            return {place: content for content, place in self._places.items() if place in places}

    def part(self, place: Place) -> Iterator[bytes]:
        """The stream of a snapshot without files, whose pack is the content at this place."""
        yield _listing({"tarmac": VERSION, "bytes": 0, "packs": []}, (), place.size_bytes)
        yield from _content(self.directory / place.pack, place.offset, place.size_bytes)

    def missing(self, contents: Iterable[str]) -> list[str]:
        """The contents among these that are not stored, each once."""
        with self._lock:
            return [content for content in dict.fromkeys(contents) if content not in self._places]

    def writer(self) -> PackWriter:
        """A new pack."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        return PackWriter(self.directory)

    def keep(self, writer: PackWriter, content: str) -> None:
        """Assign the data just written to the content of this hash; each content is stored once."""
        if self.place(content) is None:
            writer.keep(content)
        else:
            writer.drop()

    def add(self, writer: PackWriter) -> Mapping[str, Place]:
        """Finish a pack: from now on its contents are stored."""
        places = writer.finish()
        with self._lock:
            self._places.update(places)
        return places

    def remove(self, *, needed: Collection[str], before: float) -> int:
        """Remove packs that are not among those needed and were made before a time; returns their number."""
        removed = 0
        with self._lock:
            for path in self.directory.glob(f"*{PACK_SUFFIX}"):
                if path.name in needed or path.stat().st_mtime >= before:
                    continue
                path.unlink()
                removed += 1
                self._places = {
                    content: place for content, place in self._places.items() if place.pack != path.name
                }
        return removed


def sweep_partials(directory: Path) -> None:
    """Remove unfinished files after a crash, but none with an active writer."""
    for partial in directory.glob(f"{PARTIAL_PREFIX}*"):
        with suppress(OSError), locked(str(partial), wait=False) as unused:
            if unused:
                partial.unlink(missing_ok=True)


def _contents(path: Path) -> Iterator[tuple[str, Place]]:
    """The entries in the index of a pack; nothing for a file of another kind."""
    with path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        if size_bytes < _FOOTER.size:
            return
        file.seek(size_bytes - _FOOTER.size)
        count, magic = _FOOTER.unpack(file.read(_FOOTER.size))
        index_at = size_bytes - _FOOTER.size - count * _RECORD.size
        if magic != _MAGIC or index_at < 0:
            return
        file.seek(index_at)
        for content, offset, length in _RECORD.iter_unpack(file.read(count * _RECORD.size)):
            yield content.hex(), Place(path.name, offset, length)


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
    flush(root)


def summary(path: Path) -> tuple[int, set[str]]:
    """The bytes of a snapshot, and the packs that it needs; raises OSError if it does not exist."""
    with path.open(encoding="ascii") as file:
        head = json.loads(file.readline())
    return head["bytes"], set(head["packs"])


def size_bytes(path: Path, *, besides: Collection[str]) -> int:
    """The bytes of a snapshot without the files at these paths; raises OSError if it does not exist."""
    total_bytes, _ = summary(path)
    if not besides:
        return total_bytes
    extra = (int(entry[5]) for entry in _entries_of(path) if entry[0] == "f" and entry[2] in besides)
    return total_bytes - sum(extra)


def snapshots(root: Path) -> Iterator[Path]:
    """Every snapshot under a root."""
    return (path for path in root.iterdir() if is_digest(path.name))


def _line(entry: Entry, places: Mapping[str, Place], now_ns: int) -> list[object]:
    if entry.kind is not Kind.FILE:
        return line_of(entry)
    place = places[entry.path]
    dated_ns = min(max(entry.mtime_ns, _EARLIEST_NS), now_ns)
    return line_of(entry, place.pack, place.offset, place.size_bytes, dated_ns)


def large_contents(snapshot: Path, packs: Packs) -> dict[Place, str]:
    """The contents of a snapshot that are sent on their own, once for all snapshots, by their places."""
    files = (entry for entry in _entries_of(snapshot) if entry[0] == "f")
    places = {Place(*entry[3:6]) for entry in files if entry[5] >= LARGE_BYTES}
    return packs.contents_at(places) if places else {}


def bundle(snapshot: Path, packs: Packs) -> Iterator[bytes]:
    """The stream, piece by piece; raises OSError if the snapshot, or one of its packs, does not exist.

    Large contents are in packs of their own, which `Packs.part` sends.
    """
    own = f"{snapshot.name}{PACK_SUFFIX}"
    large = large_contents(snapshot, packs)
    places: dict[Place, int] = {}
    end = 0
    lines = []
    with snapshot.open(encoding="ascii") as file:
        head = json.loads(next(file))
        for line in file:
            entry = json.loads(line)
            place = Place(*entry[3:6]) if entry[0] == "f" else None
            if place in large:
                entry[3:5] = f"{large[place]}{PACK_SUFFIX}", 0
            elif place is not None:
                if place not in places:
                    places[place] = end
                    end += place.size_bytes
                entry[3:5] = own, places[place]
            lines.append(json.dumps(entry, separators=(",", ":")))
    used = [own, *(f"{content}{PACK_SUFFIX}" for content in large.values())]
    yield _listing({**head, "packs": used}, lines, end)
    for place in places:
        yield from _content(packs.directory / place.pack, place.offset, place.size_bytes)


def _listing(head: Mapping[str, Any], lines: Sequence[str], size_bytes: int) -> bytes:
    """The beginning of a stream: the sizes of its list and of its pack, and the list."""
    listing = "\n".join([json.dumps(head), *lines, ""]).encode("ascii")
    return b"%d %d\n" % (len(listing), size_bytes) + listing


_Entries = dict[str, list[Any]]


def code_changes(root: Path, before: str | None, after: str | None) -> list[CodeChange]:
    """The changes between two snapshots below `root`, by their digests (None: no code), in order of paths.

    A directory counts by its content. Raises FileNotFoundError if a snapshot was removed.
    """
    old, new = _entries(root, before), _entries(root, after)
    found = []
    for path in sorted(old.keys() | new.keys()):
        if path not in old:
            found.append(CodeChange(path=path, change="added"))
        elif path not in new:
            found.append(CodeChange(path=path, change="removed"))
        elif before != after and not _same(root / PACKS, old[path], new[path]):
            found.append(CodeChange(path=path, change="changed"))
    return found


def _entries(root: Path, digest: str | None) -> _Entries:
    if digest is None:
        return {}
    return {entry[2]: entry for entry in _entries_of(root / digest) if entry[0] != "d"}


def _entries_of(snapshot: Path) -> Iterator[list[Any]]:
    with snapshot.open(encoding="ascii") as file:
        next(file)  # the head
        yield from map(json.loads, file)


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
