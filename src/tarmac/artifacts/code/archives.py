"""Archives as code: reads zip and tar files as trees. Called by `store.py`.

Nothing is ever extracted: names become entries, contents go straight into a pack, and the tree is checked
before it becomes a snapshot. So no name, link or device in an archive can reach a file system here.
"""

import bz2
import errno
import gzip
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from os import SEEK_END
from pathlib import Path
from typing import IO, BinaryIO, cast

from tarmac.artifacts.code.ignore import Layer, excluding
from tarmac.artifacts.code.members import Bad, Member, XzReader, tar_members, zip_members
from tarmac.artifacts.code.tree import MOST_ENTRIES, Entry, Kind, mebibytes, refusal_of_name, refusals
from tarmac.model.errors import InvalidInput, Problem, listed
from tarmac.model.spec import LocalDirectory
from tarmac.node.container.failures import ImageProblem

ENDINGS = (
    *(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2"),
    *(".tar.xz", ".txz", ".tar.zst", ".tzst", ".zip"),
)
MOST_SHOWN = 5

BOMB_RATIO = 200
BOMB_BYTES = 64 << 20
"""An archive that unpacks to more than this, and to more than a multiple of its size, is a bomb."""

_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, OSError, ValueError, RuntimeError, MemoryError, IndexError, ImageProblem),
)
"""The errors of the standard library's readers at invalid archives."""

_DRIVE = re.compile(r"[A-Za-z]:")


def is_archive(path: Path) -> bool:
    """Whether a path names an archive: by its ending, and because it is no directory."""
    try:
        return path.name.lower().endswith(ENDINGS) and path.is_file()
    except (OSError, ValueError):
        return False


def read_archive(
    file: BinaryIO,
    code: LocalDirectory,
    *,
    write: Callable[[bytes], object],
    keep: Callable[[str], object],
    limit_bytes: int,
    most_entries: int = MOST_ENTRIES,
) -> tuple[list[Entry], dict[str, str]]:
    """The tree in an archive, and the hash of each file, whose content is written and stored during reading.

    Raises InvalidInput, with all known problems, for an archive that is broken, too large, or contains
    entries that a directory of code cannot have.
    """
    packed_bytes = file.seek(0, SEEK_END)
    file.seek(0)
    try:
        reading = _Reading(excluding(code.exclude), code.path, packed_bytes, write, keep, limit_bytes)
        reading.take(_members(file, code.path), most=most_entries)
        return reading.tree()
    except Bad as bad:
        raise _refused(code.path, [str(bad)]) from None
    except NotImplementedError as error:
        raise _refused(code.path, [f"is packed in a way that cannot be read here: {error}"]) from None
    except _DAMAGED as error:
        # EINVAL: a position before the beginning of the file. Any other number is a fault of the disk.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise _refused(code.path, [f"is damaged: {error}"]) from None


def _members(file: BinaryIO, path: str) -> Iterator[Member]:
    name = path.lower()
    if name.endswith(".zip"):
        return zip_members(file)
    return tar_members(_inflated(file, name))


def _inflated(file: BinaryIO, name: str) -> IO[bytes]:
    if name.endswith((".gz", ".tgz")):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if name.endswith((".bz2", ".tbz2")):
        return bz2.BZ2File(file)
    if name.endswith((".xz", ".txz")):
        return cast(IO[bytes], XzReader(file))
    if name.endswith((".zst", ".tzst")):
        try:
            from compression import zstd  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 3.14
        except ImportError:
            raise Bad("is packed with zstd, which this Python cannot read: pack it with gzip or xz") from None
        opened: IO[bytes] = zstd.ZstdFile(file)
        return opened
    return file


@dataclass
class _Reading:
    """The entries found in an archive so far."""

    exclude: Layer | None
    path: str
    packed_bytes: int
    write: Callable[[bytes], object]
    keep: Callable[[str], object]
    limit_bytes: int
    total_bytes: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take(self, members: Iterator[Member], *, most: int) -> None:
        """Read member after member; a member with a refused name is not read."""
        for number, member in enumerate(members, start=1):
            if number > most:
                raise Bad(f"holds more than the {most:,} files and directories allowed")
            problem = _refusal(member)
            if problem is not None:
                self.problems.append(problem)
            elif member.entry.path and not self._left_out(member.entry):
                self._take_one(member.entry, member.content)

    def tree(self) -> tuple[list[Entry], dict[str, str]]:
        """The whole tree, with all parent directories; raises InvalidInput if it is refused."""
        for path in list(self.entries):
            while path := path.rpartition("/")[0]:
                self.entries.setdefault(path, Entry(path, Kind.DIRECTORY, 0o755))
        entries = sorted(
            self.entries.values(), key=lambda entry: entry.path.encode("utf-8", "surrogateescape")
        )
        problems = self.problems or refusals(entries)
        if problems:
            raise _refused(self.path, problems)
        return entries, self.hashes

    def _left_out(self, entry: Entry) -> bool:
        """Whether the entry, or one of its parent directories, is excluded."""
        if self.exclude is None:
            return False
        parts = entry.path.split("/")
        for depth in range(1, len(parts) + 1):
            is_directory = depth < len(parts) or entry.kind is Kind.DIRECTORY
            if self.exclude.decision("/".join(parts[:depth]), is_directory=is_directory):
                return True
        return False

    def _take_one(self, entry: Entry, content: Callable[[], Iterable[bytes]]) -> None:
        before = self.entries.get(entry.path)
        if before is not None and not (before.kind is entry.kind is Kind.DIRECTORY):
            self.problems.append(f"{entry.path!r:.200} is there twice")
            return
        if entry.kind is Kind.FILE:
            self.hashes[entry.path] = self._stored(entry, content())
        self.entries[entry.path] = entry

    def _stored(self, entry: Entry, content: Iterable[bytes]) -> str:
        """The hash of a file's content, which is stored from now on."""
        self._count(entry.size_bytes)
        digest, read_bytes = sha256(), 0
        for chunk in content:
            read_bytes += len(chunk)
            if read_bytes > entry.size_bytes:
                raise Bad(f"is damaged: {entry.path!r:.200} holds more than it says")
            digest.update(chunk)
            self.write(chunk)
        if read_bytes != entry.size_bytes:
            raise Bad(f"is damaged: {entry.path!r:.200} ends early")
        self.keep(digest.hexdigest())
        return digest.hexdigest()

    def _count(self, size_bytes: int) -> None:
        """Refuse a bomb before more of it is unpacked."""
        self.total_bytes += size_bytes
        if self.total_bytes > self.limit_bytes:
            raise Bad(f"unpacks to more than the {mebibytes(self.limit_bytes)} allowed")
        if self.total_bytes > max(BOMB_BYTES, BOMB_RATIO * self.packed_bytes):
            raise Bad(f"unpacks to more than {BOMB_RATIO} times its size: that is no code")


def _refusal(member: Member) -> str | None:
    path = member.entry.path
    if member.refused is not None:
        return f"{path!r:.200} {member.refused}"
    if _DRIVE.match(path):
        return f"{path!r:.200} names a drive"
    return refusal_of_name(path) if path else None


def _refused(path: str, problems: Sequence[str]) -> InvalidInput:
    message = listed(problems, MOST_SHOWN, "; ")
    return InvalidInput([Problem(message=message, file=path, hint="nothing of the archive was kept")])
