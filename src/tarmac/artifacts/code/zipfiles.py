"""Zip archives, member by member. Called by `archives`."""

from __future__ import annotations

import stat
import struct
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import BinaryIO

from tarmac.artifacts.code.members import Bad, Member, plain
from tarmac.artifacts.code.tree import Kind, mebibytes

CHUNK_BYTES = 1 << 20
LARGEST_LISTING_BYTES = 64 << 20
_LONGEST_LINK_BYTES = 4_096
_ENCRYPTED = 0x1
_UNIX = 3

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_COMMENT_BYTES = 65_535


def members(file: BinaryIO) -> Iterator[Member]:
    """Every member, in the order of the central directory."""
    _check_listing(file)
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            yield _member(archive, info)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    path = plain(info.filename)
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    kind = stat.S_IFMT(mode)
    if "\0" in info.orig_filename:
        return Member(path=info.orig_filename, refused="holds a zero byte")
    if "\\" in path:
        return Member(path=path, refused="has a backslash in its name: pack it with / between directories")
    if info.flag_bits & _ENCRYPTED:
        return Member(path=path, refused="is encrypted")
    if kind == stat.S_IFLNK:
        if info.file_size > _LONGEST_LINK_BYTES:
            return Member(path=path, refused="is a symbolic link to no possible name")
        target = archive.read(info).decode("utf-8", "surrogateescape")
        return Member(path=path, kind=Kind.LINK, target=target)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return Member(path=path, refused="is neither a file nor a directory nor a symbolic link")
    if info.is_dir() or kind == stat.S_IFDIR:
        return Member(path=path, kind=Kind.DIRECTORY, mode=stat.S_IMODE(mode) or 0o755)
    return Member(
        path=path,
        mode=stat.S_IMODE(mode) or 0o644,
        size_bytes=info.file_size,
        mtime_ns=_mtime_ns(info),
        content=partial(_content, archive, info),
    )


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


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
    if listing_bytes > LARGEST_LISTING_BYTES:
        raise Bad(f"lists its files in {mebibytes(listing_bytes)}: that is no code")
