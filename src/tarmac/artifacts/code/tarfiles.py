"""Tar archives, member by member, as a stream: nothing is read twice. Called by `archives`."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterator
from functools import partial
from typing import IO, BinaryIO, cast

from tarmac.artifacts.code.members import Bad, Member, plain
from tarmac.artifacts.code.tree import Kind

CHUNK_BYTES = 1 << 20
LARGEST_HEADER_BYTES = 1 << 20
XZ_MEMORY_BYTES = 256 << 20

_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def members(file: IO[bytes]) -> Iterator[Member]:
    """Every member, in the order of the archive."""
    with tarfile.open(
        fileobj=file, mode="r|", tarinfo=_Info, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for info in archive:
            yield _member(archive, info)
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
        limit_bytes = CHUNK_BYTES if count_bytes < 0 else count_bytes
        while not self._ended:
            piece = self._inflater.decompress(self._left, limit_bytes)
            self._left = b""
            if self._inflater.eof:
                self._next_stream()
            elif not piece and self._inflater.needs_input:
                self._left = self._file.read(CHUNK_BYTES)
                if not self._left:
                    raise EOFError("it ends early")
            if piece:
                return piece
        return b""

    def _next_stream(self) -> None:
        rest = (self._inflater.unused_data or self._file.read(CHUNK_BYTES)).lstrip(b"\0")
        self._ended = not rest
        self._left = rest
        self._inflater = self._new()

    def _new(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=XZ_MEMORY_BYTES)


class _Info(tarfile.TarInfo):
    """A header that is not read if it would fill the memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _HEADERS and self.size > LARGEST_HEADER_BYTES:
            raise Bad("has a header that is larger than any name")
        return cast(tarfile.TarInfo, super()._proc_member(archive))  # type: ignore[misc]


def _member(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    path = plain(info.name)
    if info.name.startswith("/"):
        return Member(path=info.name, refused="is an absolute name")
    if info.issym():
        return Member(path=path, kind=Kind.LINK, target=info.linkname)
    if info.isdir():
        return Member(path=path, kind=Kind.DIRECTORY, mode=info.mode)
    if info.islnk():
        return Member(path=path, refused="is a hard link: pack the file itself")
    if info.sparse is not None:
        return Member(path=path, refused="is a sparse file: pack it whole")
    if not info.isreg():
        return Member(path=path, refused="is neither a file nor a directory nor a symbolic link")
    return Member(
        path=path,
        mode=info.mode,
        size_bytes=info.size,
        mtime_ns=int(max(0, min(info.mtime, 2**33))) * 10**9,
        content=partial(_content, archive, info),
    )


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    file = archive.extractfile(info)
    while file is not None and (chunk := file.read(CHUNK_BYTES)):
        yield chunk
