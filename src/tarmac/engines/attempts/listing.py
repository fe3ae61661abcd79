"""What lies in the directory of an attempt, for whoever asks by name. Called by engines and `hosts.host`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.model.abilities import FileEntry
from tarmac.model.errors import NotFound
from tarmac.node.files.inside import list_inside


def file_entries(found: Iterable[Sequence[Any]]) -> list[FileEntry]:
    """The entries that `node/files/inside.py` lists, as records."""
    return [
        FileEntry(name=str(name), kind=str(kind), size_bytes=int(size_bytes), modified_at=float(modified_at))
        for name, kind, size_bytes, modified_at in found
    ]


def listed(layout: Layout, attempt_id: str, path: str, *, limit: int) -> list[FileEntry]:
    """A directory of an attempt that lies here; raises NotFound."""
    directory = layout.attempt(attempt_id)
    found = list_inside(str(directory), path, limit=limit) if directory is not None else None
    if found is None:
        raise no_directory(attempt_id, path)
    return file_entries(found)


def no_directory(attempt_id: str, path: str) -> NotFound:
    """The error for a directory that is not there."""
    return NotFound(f"attempt {attempt_id} has no directory {path!r}")
