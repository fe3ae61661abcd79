"""The differing files of two code snapshots in one store. Called by `server/routes/code.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tarmac.node.files.codestore import PACKS

CHUNK_BYTES = 1 << 20

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
    pieces = zip(_content(packs, one), _content(packs, other), strict=True)
    return all(first == second for first, second in pieces)


def _content(packs: Path, entry: list[Any]) -> Iterator[bytes]:
    pack, offset, size_bytes = entry[3:6]
    with (packs / pack).open("rb") as file:
        file.seek(offset)
        for begin in range(0, size_bytes, CHUNK_BYTES):
            yield file.read(min(size_bytes - begin, CHUNK_BYTES))
