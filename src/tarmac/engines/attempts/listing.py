"""Lists the directory of an attempt for requests by name. Called by engines and `hosts.host`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tarmac.model.abilities import FileEntry


def file_entries(found: Iterable[Sequence[Any]]) -> list[FileEntry]:
    """The entries of `node/files/inside.py` as records."""
    return [
        FileEntry(name=str(name), kind=str(kind), size_bytes=int(size_bytes), modified_at=float(modified_at))
        for name, kind, size_bytes, modified_at in found
    ]
