"""The layout of a directory of code: snapshots by digest, packs with contents, and unfinished files.

Used by the runner and by `artifacts`, which writes it. On a machine without access to the server's disk,
`receive` stores a snapshot from a stream that `artifacts/code/packs.py` makes:

    BYTES OF THE LIST, BYTES OF THE CONTENTS, as decimal numbers with a blank between, and a newline
    the list: a snapshot, as the hook `code` reads it, whose only pack is DIGEST.pack
    the contents: that pack

Both are written to temporary files and renamed: a snapshot is never visible incomplete.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from typing import Any, BinaryIO, Iterable, Iterator

PACKS = "packs"
"""The directory of the packs, beside the snapshots."""

PACK_SUFFIX = ".pack"
PARTIAL_PREFIX = ".partial-"
_CHUNK_BYTES = 1 << 20


def is_digest(text: str) -> bool:
    """Whether a text has the form of a digest of a snapshot or content: a SHA-256 in hexadecimal digits."""
    return len(text) == 64 and not text.strip("0123456789abcdef")


def digest(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal digits."""
    import hashlib  # noqa: PLC0415 -- a large library, which every runner would be forked with

    return hashlib.sha256(text.encode()).hexdigest()


def packs_of(snapshot: str) -> list[str]:
    """The digests in the names of the packs that a snapshot needs; none for another file."""
    if not is_digest(os.path.basename(snapshot)):
        return []
    try:
        with open(snapshot, encoding="ascii") as file:
            return [pack[: -len(PACK_SUFFIX)] for pack in json.loads(file.readline())["packs"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def receive(stream: BinaryIO, directory: str, digest: str) -> None:
    """Store a snapshot in a directory of code, if it is missing; raises ValueError and OSError."""
    if not is_digest(digest):
        raise ValueError(f"{digest!r:.100} is not the name of a snapshot")
    target = os.path.join(directory, digest)
    packs = os.path.join(directory, PACKS)
    if os.path.exists(target):
        return
    sizes = stream.readline(64).split()
    if len(sizes) != 2 or not all(map(bytes.isdigit, sizes)):
        raise ValueError("what came is no snapshot")
    os.makedirs(packs, mode=0o700, exist_ok=True)
    partial = os.path.join(directory, f"{PARTIAL_PREFIX}{digest}.{os.urandom(6).hex()}")
    try:
        _receive_file(stream, partial, int(sizes[0]))
        _receive_file(stream, partial + PACK_SUFFIX, int(sizes[1]))
        os.rename(partial + PACK_SUFFIX, os.path.join(packs, digest + PACK_SUFFIX))
        os.rename(partial, target)
    finally:
        for path in (partial, partial + PACK_SUFFIX):
            with suppress(FileNotFoundError):
                os.unlink(path)


def receive_pieces(pieces: Iterable[bytes], directory: str, digest: str) -> None:
    """Store a snapshot that arrives in pieces; see `receive`."""
    receive(io.BufferedReader(_Pieces(iter(pieces))), directory, digest)


class _Pieces(io.RawIOBase):
    """An iterator of pieces as a readable stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _receive_file(stream: BinaryIO, path: str, size_bytes: int) -> None:
    with open(path, "xb") as file:
        while size_bytes > 0:
            piece = stream.read(min(size_bytes, _CHUNK_BYTES))
            if not piece:
                raise ValueError(f"{size_bytes} bytes are missing")
            file.write(piece)
            size_bytes -= len(piece)
        file.flush()
        os.fsync(file.fileno())
