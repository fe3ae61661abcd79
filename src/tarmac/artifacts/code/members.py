"""The members of zip and tar archives, one by one. Read by `archives`."""

import lzma
import stat
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, BinaryIO, cast

from tarmac.artifacts.code.tree import OWNER_MAY_ENTER, Entry, Kind, mebibytes
from tarmac.node.container.unpacking import BoundedEntry


class Bad(Exception):
    """The whole archive is refused; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file, directory or link in an archive, as an entry of the tree. `refused`: the reason if it is none.

    The path is the recorded one, without `./` in front and `/` behind; empty for the archive's own top.
    `content` returns a file's pieces, once, while the member is the current one.
    """

    entry: Entry
    content: Callable[[], Iterable[bytes]] = tuple
    refused: str | None = None


def _file(
    path: str, mode: int, *, size_bytes: int, mtime_ns: int, content: Callable[[], Iterable[bytes]]
) -> Member:
    entry = Entry(path, Kind.FILE, mode & 0o777 | stat.S_IRUSR, size_bytes=size_bytes, mtime_ns=mtime_ns)
    return Member(entry=entry, content=content)


def _directory(path: str, mode: int) -> Member:
    return Member(entry=Entry(path, Kind.DIRECTORY, mode & 0o777 | OWNER_MAY_ENTER))


def _link(path: str, target: str) -> Member:
    return Member(entry=Entry(path, Kind.LINK, 0, target=target))


def _refused(path: str, reason: str) -> Member:
    return Member(entry=Entry(path, Kind.FILE, 0), refused=reason)


def _plain(name: str) -> str:
    """A name in an archive as a path in the tree; its errors remain."""
    while name.startswith("./"):
        name = name[2:].lstrip("/") if name[2:3] == "/" else name[2:]
    return "" if name in (".", "./") else name.removesuffix("/")


_CHUNK_BYTES = 1 << 20
_XZ_MEMORY_BYTES = 256 << 20


def tar_members(file: IO[bytes]) -> Iterator[Member]:
    """Every member, in the order of the archive."""
    with tarfile.open(
        fileobj=file, mode="r|", tarinfo=BoundedEntry, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for info in archive:
            yield _tar_member(archive, info)
            archive.members = []  # type: ignore[attr-defined] # of a million headers none is needed again


class XzReader:
    """The content of an xz file, read with bounded memory whatever its header requires."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflater = self._new()
        self._left = b""
        self._ended = False

    def read(self, count_bytes: int = -1, /) -> bytes:
        """At most this number of bytes; none at the end."""
        limit_bytes = _CHUNK_BYTES if count_bytes < 0 else count_bytes
        while not self._ended:
            piece = self._inflater.decompress(self._left, limit_bytes)
            self._left = b""
            if self._inflater.eof:
                self._next_stream()
            elif not piece and self._inflater.needs_input:
                self._left = self._file.read(_CHUNK_BYTES)
                if not self._left:
                    raise EOFError("it ends early")
            if piece:
                return piece
        return b""

    def _next_stream(self) -> None:
        rest = (self._inflater.unused_data or self._file.read(_CHUNK_BYTES)).lstrip(b"\0")
        self._ended = not rest
        self._left = rest
        self._inflater = self._new()

    def _new(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_XZ_MEMORY_BYTES)


def _tar_member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    path = _plain(info.name)
    if info.name.startswith("/"):
        return _refused(info.name, "is an absolute name")
    if info.issym():
        return _link(path, info.linkname)
    if info.isdir():
        return _directory(path, info.mode)
    if info.islnk():
        return _refused(path, "is a hard link: pack the file itself")
    if info.sparse is not None:
        return _refused(path, "is a sparse file: pack it whole")
    if not info.isreg():
        return _refused(path, "is neither a file nor a directory nor a symbolic link")
    return _file(
        path,
        info.mode,
        size_bytes=info.size,
        mtime_ns=int(max(0, min(info.mtime, 2**33))) * 10**9,
        content=partial(_pieces, partial(archive.extractfile, info)),
    )


def _pieces(opened: Callable[[], IO[bytes] | None]) -> Iterator[bytes]:
    """The content of a regular file in an archive."""
    with cast(IO[bytes], opened()) as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


_LARGEST_LISTING_BYTES = 64 << 20
_LONGEST_LINK_BYTES = 4_096
_ENCRYPTED = 0x1
_UNIX = 3

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_COMMENT_BYTES = 65_535


def zip_members(file: BinaryIO) -> Iterator[Member]:
    """Every member, in the order of the central directory."""
    _check_listing(file)
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            yield _zip_member(archive, info)


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    path = _plain(info.filename)
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    kind = stat.S_IFMT(mode)
    if "\0" in info.orig_filename:
        return _refused(info.orig_filename, "holds a zero byte")
    if "\\" in path:
        return _refused(path, "has a backslash in its name: pack it with / between directories")
    if info.flag_bits & _ENCRYPTED:
        return _refused(path, "is encrypted")
    if kind == stat.S_IFLNK:
        if info.file_size > _LONGEST_LINK_BYTES:
            return _refused(path, "is a symbolic link to no possible name")
        target = archive.read(info).decode("utf-8", "surrogateescape")
        return _link(path, target)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return _refused(path, "is neither a file nor a directory nor a symbolic link")
    if info.is_dir() or kind == stat.S_IFDIR:
        return _directory(path, stat.S_IMODE(mode) or 0o755)
    return _file(
        path,
        stat.S_IMODE(mode) or 0o644,
        size_bytes=info.file_size,
        mtime_ns=_mtime_ns(info),
        content=partial(_pieces, partial(archive.open, info)),
    )


def _mtime_ns(info: zipfile.ZipInfo) -> int:
    with suppress(ValueError, OverflowError):
        return int(time.mktime((*info.date_time, 0, 0, -1))) * 10**9
    return 0


def _check_listing(file: BinaryIO) -> None:
    """Refuse a central directory that would fill the memory: it is read completely before its members can be
    counted.
    """
    size_bytes = file.seek(0, 2)
    start = max(0, size_bytes - _COMMENT_BYTES - _END.size - _END_64.size - 20)
    file.seek(start)
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + _END.size:
        raise Bad("is not a zip file")
    listing_bytes = _END.unpack_from(tail, at)[5]
    at_64 = tail.rfind(b"PK\6\6", 0, at)
    if at_64 >= 0 and len(tail) >= at_64 + _END_64.size:
        listing_bytes = max(listing_bytes % 0xFFFFFFFF, _END_64.unpack_from(tail, at_64)[8])
    if listing_bytes > _LARGEST_LISTING_BYTES:
        raise Bad(f"lists its files in {mebibytes(listing_bytes)}: that is no code")
