"""Lists the directory of an attempt for requests by name. Called by engines and `hosts.host`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.model.abilities import FileEntry
from tarmac.model.errors import NotFound
from tarmac.node.files.inside import list_inside


def file_entries(found: Iterable[Sequence[Any]]) -> list[FileEntry]:
    """The entries of `node/files/inside.py` as records."""
    return [
        FileEntry(name=str(name), kind=str(kind), size_bytes=int(size_bytes), modified_at=float(modified_at))
        for name, kind, size_bytes, modified_at in found
    ]


def listed(layout: Layout, attempt_id: str, path: str, *, limit: int) -> list[FileEntry]:
    """The entries of a directory of an attempt on this machine; raises NotFound."""
    directory = layout.attempt(attempt_id)
    found = list_inside(str(directory), path, limit=limit) if directory is not None else None
    if found is None:
        raise no_directory(attempt_id, path)
    return file_entries(found)


def no_directory(attempt_id: str, path: str) -> NotFound:
    """The error for a missing directory."""
    return NotFound(f"attempt {attempt_id} has no directory {path!r}")
