"""Artifacts as `tarmac.api` has them. Called by their routes."""

from __future__ import annotations

from tarmac import api
from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.manifest import Entry, Manifest
from tarmac.server.records.copying import copy_fields


def artifact_record(source: VersionSummary | Manifest, *, run_name: str | None) -> api.Artifact:
    version = source.version
    return copy_fields(
        api.Artifact,
        source,
        id=version.id,
        run=version.run_id,
        run_name=run_name,
        kind=version.kind,
        number=version.number,
        rank=version.rank,
        bytes=source.size_bytes,
    )


def content_record(manifest: Manifest, *, run_name: str | None) -> api.ArtifactContent:
    entries = [_entry_record(entry) for entry in manifest.entries]
    return {"artifact": artifact_record(manifest, run_name=run_name), "entries": entries}


def _entry_record(entry: Entry) -> api.ArtifactEntry:
    pieces: list[api.Piece] = [{"digest": chunk.digest, "bytes": chunk.size_bytes} for chunk in entry.chunks]
    return copy_fields(api.ArtifactEntry, entry, bytes=entry.size_bytes, pieces=pieces)
