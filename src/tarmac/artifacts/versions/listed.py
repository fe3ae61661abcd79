"""The versions in a store, and their content. For the sidecar and the server's catalogue."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress

from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.manifest import (
    MANIFESTS,
    Broken,
    Chunk,
    Manifest,
    Version,
    directory_of,
    from_bytes,
    version_named,
)
from tarmac.model.errors import NotFound


def versions(blobs: Blobs, run_id: str | None = None) -> list[Version]:
    """All versions of a run (or of all runs), in order."""
    return sorted(_versions(blobs, f"{MANIFESTS}/{run_id}" if run_id else MANIFESTS))


def latest(blobs: Blobs, run_id: str, kind: str, rank: int) -> Version | None:
    """The newest whole version of one kind of artifact of a run, from the node of that rank."""
    return max(_versions(blobs, directory_of(run_id, kind, rank)), default=None)


def read_manifest(blobs: Blobs, version: Version) -> Manifest:
    """The content of a version; raises NotFound if it does not exist, Broken if it is damaged."""
    data = blobs.get(version.name)
    if data is None:
        raise NotFound(f"there is no artifact {version.id}")
    return from_bytes(data, version)


def manifests(blobs: Blobs, run_id: str, kind: str, rank: int) -> Iterator[Manifest]:
    """The readable versions from the node of that rank, newest first."""
    for version in sorted(_versions(blobs, directory_of(run_id, kind, rank)), reverse=True):
        with suppress(NotFound, Broken):  # removed meanwhile, or damaged
            yield read_manifest(blobs, version)


def read_chunk(blobs: Blobs, chunk: Chunk) -> bytes:
    """A piece of a file; raises Broken if it is missing or damaged."""
    data = blobs.get(chunk.name)
    if data is None:
        raise Broken(f"the piece {chunk.digest[:12]} is gone from the artifact store")
    if hashlib.sha256(data).hexdigest() != chunk.digest:
        raise Broken(f"the piece {chunk.digest[:12]} is damaged in the artifact store")
    return data


def _versions(blobs: Blobs, prefix: str) -> Iterator[Version]:
    for piece in blobs.pieces(prefix):
        version = version_named(piece.name)
        if version is not None:
            yield version
