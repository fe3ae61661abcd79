"""Reads a file of an attempt by name on this machine. Called by the local engine."""

from __future__ import annotations

from tarmac.engines.attempts.layout import Layout
from tarmac.model.errors import NotFound
from tarmac.node.files.inside import read_inside


def read_file(layout: Layout, attempt_id: str, path: str, *, offset: int, limit: int) -> bytes:
    """At most `limit` bytes from `offset` of a file of an attempt; raises NotFound if there is none."""
    directory = layout.attempt(attempt_id)
    content = read_inside(str(directory), path, offset=max(0, offset), limit=limit) if directory else None
    if content is None:
        raise NotFound(f"attempt {attempt_id} has no file {path!r}")
    return content
