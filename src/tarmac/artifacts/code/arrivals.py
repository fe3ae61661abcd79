"""Code sent by clients: contents in packs, then the tree that names them. Called by the routes.

No data of a client is trusted: each content is hashed on its way into a pack, a tree is checked completely
before it is stored, and no name in it is ever used as a path here. Received contents are stored, so that an
interrupted upload continues from them.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping, Sequence
from io import RawIOBase
from typing import Any, BinaryIO, Self, cast

from tarmac.artifacts.code.content import Vanished
from tarmac.artifacts.code.packs import Place
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.artifacts.code.tree import MOST_ENTRIES, OWNER_MAY_ENTER, Entry, Kind, check_size, refusals
from tarmac.model.errors import InvalidInput, Problem, Refused
from tarmac.model.spec import LocalDirectory
from tarmac.node.files.codestore import is_digest

HEADER = struct.Struct(">32sQ")

MOST_SHOWN = 5


class Arrivals:
    """The receiving end of uploads, over a code store. Thread-safe."""

    def __init__(self, store: DirectoryCodeStore) -> None:
        self._store = store
        self.limit_bytes = store.limit_bytes
        """The size limit of code whose run file sets no limit."""

    def missing(self, contents: Sequence[str]) -> list[str]:
        """The contents among these that the client has to send."""
        if len(contents) > MOST_ENTRIES:
            raise InvalidInput(f"asked for more than {MOST_ENTRIES:,} contents at once")
        for content in contents:
            _check_content(content)
        return self._store.packs.missing(contents)

    def receive(self) -> Receiver:
        """A receiver for a new pack."""
        return Receiver(self._store)

    def commit(self, sent: Any) -> str:
        """Make a snapshot of the tree, or of the archive, that a client names; returns its digest.

        Raises InvalidInput for invalid code, Refused if contents are still missing.
        """
        tree = _Sent(sent)
        if tree.archive is not None:
            place = self._place(tree.archive)
            with (self._store.packs.directory / place.pack).open("rb") as pack:
                return self._store.unpack(cast(BinaryIO, _Window(pack, place)), tree.code)
        entries = [self._sized(entry, tree.hashes) for entry in tree.entries]
        limit_bytes = self._store.limit_of(tree.code)
        check_size(entries, source=tree.code.path, code=tree.code, limit_bytes=limit_bytes)
        try:
            return self._store.commit(entries, tree.hashes, {})
        except Vanished as gone:
            raise _still_missing(str(gone)) from None

    def _sized(self, entry: Entry, hashes: Mapping[str, str]) -> Entry:
        """The entry with the actual size of its content."""
        if entry.kind is not Kind.FILE:
            return entry
        place = self._place(hashes[entry.path])
        return Entry(entry.path, entry.kind, entry.mode, size_bytes=place.size_bytes, mtime_ns=entry.mtime_ns)

    def _place(self, content: str) -> Place:
        place = self._store.packs.place(content)
        if place is None:
            raise _still_missing(content)
        return place


class Receiver:
    """Receives a pack in pieces of any size. Used in a `with` block; `finish` makes it durable."""

    def __init__(self, store: DirectoryCodeStore) -> None:
        self._packs = store.packs
        self._writer = store.packs.writer()
        self._header = b""
        self._content: str | None = None
        self._left_bytes = 0
        self._digest = hashlib.sha256()
        self._stored = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.__exit__(*error)

    def feed(self, piece: bytes) -> None:
        """The next piece; raises InvalidInput for a content that does not match its hash."""
        view = memoryview(piece)
        while view:
            if self._content is None:
                missing_bytes = HEADER.size - len(self._header)
                self._header += bytes(view[:missing_bytes])
                view = view[missing_bytes:]
                if len(self._header) < HEADER.size:
                    return
                self._begin()
            chunk = view[: self._left_bytes]
            view = view[len(chunk) :]
            self._digest.update(chunk)
            self._writer.write(bytes(chunk))
            self._left_bytes -= len(chunk)
            if self._left_bytes == 0:
                self._end()

    def finish(self) -> int:
        """Store the pack durably; returns its number of contents."""
        if self._content is not None or self._header:
            raise InvalidInput("the pack ends in the middle of a content")
        self._packs.add(self._writer)
        return self._stored

    def _begin(self) -> None:
        content, self._left_bytes = HEADER.unpack(self._header)
        self._content = content.hex()
        self._header = b""
        self._digest = hashlib.sha256()
        if self._left_bytes == 0:
            self._end()

    def _end(self) -> None:
        content, self._content = self._content, None
        if content is None:
            return
        if self._digest.hexdigest() != content:
            raise InvalidInput(f"a content is not what its hash {content} says")
        self._packs.keep(self._writer, content)
        self._stored += 1


class _Sent:
    """A tree as a client sent it, read and checked."""

    def __init__(self, sent: Any) -> None:
        if not isinstance(sent, dict):
            raise InvalidInput("a tree is an object with path, and entries or archive")
        path, exclude = sent.get("path", ""), sent.get("exclude", [])
        limit_bytes, extra = sent.get("limit_bytes"), sent.get("extra_files", [])
        lists = all(
            isinstance(each, list) and all(isinstance(item, str) for item in each)
            for each in (exclude, extra)
        )
        if not isinstance(path, str) or not lists:
            raise InvalidInput(
                "path must be text, exclude a list of patterns, and extra_files a list of paths"
            )
        if limit_bytes is not None and (type(limit_bytes) is not int or limit_bytes < 0):
            raise InvalidInput("limit_bytes must be a whole number")
        self.code = LocalDirectory(
            path=path, exclude=tuple(exclude), limit_bytes=limit_bytes, extra_files=dict.fromkeys(extra, "")
        )
        self.archive = sent.get("archive")
        self.entries: list[Entry] = []
        self.hashes: dict[str, str] = {}
        if self.archive is not None:
            _check_content(self.archive)
            return
        items = sent.get("entries")
        if not isinstance(items, list):
            raise InvalidInput("entries must be a list")
        if len(items) > MOST_ENTRIES:
            raise InvalidInput(f"a tree may hold {MOST_ENTRIES:,} entries, not {len(items):,}")
        self.entries = [self._entry(item) for item in items]
        self._check()

    def _check(self) -> None:
        try:
            self.entries.sort(key=lambda entry: os.fsencode(entry.path))
            os.fsencode(self.code.path)
        except UnicodeEncodeError:
            raise InvalidInput("a name of the tree is not one that a file can have") from None
        problems = refusals(self.entries)
        if problems:
            more = [f"and {len(problems) - MOST_SHOWN:,} more"] if len(problems) > MOST_SHOWN else []
            shown = [*problems[:MOST_SHOWN], *more]
            raise InvalidInput([Problem(message=text, file=self.code.path or None) for text in shown])

    def _entry(self, item: Any) -> Entry:
        match item:
            case ["d", int(mode), str(path)]:
                return Entry(path, Kind.DIRECTORY, mode & 0o777 | OWNER_MAY_ENTER)
            case ["l", str(target), str(path)]:
                return Entry(path, Kind.LINK, 0, target=target)
            case ["f", int(mode), str(path), content, int(mtime_ns)] if -(2**62) < mtime_ns < 2**62:
                self.hashes[path] = _check_content(content)
                return Entry(path, Kind.FILE, mode & 0o777, mtime_ns=mtime_ns)
        raise InvalidInput(f"{item!r:.200} is not an entry of a tree")


class _Window(RawIOBase):
    """One content of a pack as a file of its own."""

    def __init__(self, pack: BinaryIO, place: Place) -> None:
        self._pack = pack
        self._place = place
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._place.size_bytes}[whence]
        if base + offset < 0:
            raise ValueError("it would begin before its beginning")
        self._at = base + offset
        return self._at

    def read(self, count_bytes: int | None = -1, /) -> bytes:
        left_bytes = max(0, self._place.size_bytes - self._at)
        size_bytes = left_bytes if count_bytes is None or count_bytes < 0 else min(count_bytes, left_bytes)
        self._pack.seek(self._place.offset + self._at)
        piece = self._pack.read(size_bytes)
        self._at += len(piece)
        return piece


def _check_content(content: Any) -> str:
    if not isinstance(content, str) or not is_digest(content):
        raise InvalidInput(f"{content!r:.100} is not a SHA-256 in hexadecimal digits")
    return content


def _still_missing(what: str) -> Refused:
    return Refused(f"the content of {what!r:.200} is not here", hint="ask what is missing, and send it first")
