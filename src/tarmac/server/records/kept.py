"""Artifacts, datasets and secrets as JSON. Called by their routes; `schemas` has the same shapes."""

from __future__ import annotations

from typing import Any

from tarmac.artifacts.versions.catalog import Kept
from tarmac.artifacts.versions.manifest import Entry, Manifest
from tarmac.model.dataset import Dataset
from tarmac.model.secret import SecretVersion

Json = dict[str, Any]


def artifact_record(kept: Kept, *, run_name: str | None) -> Json:
    """An `Artifact`."""
    version = kept.version
    return {
        "id": version.id,
        "run": version.run_id,
        "run_name": run_name,
        "kind": version.kind,
        "number": version.number,
        "rank": version.rank,
        "attempt": kept.attempt,
        "created_at": kept.created_at,
        "files": kept.files,
        "bytes": kept.size_bytes,
        "left_out": list(kept.left_out),
    }


def content_record(manifest: Manifest, *, run_name: str | None) -> Json:
    """An `ArtifactContent`."""
    kept = Kept(
        version=manifest.version,
        attempt=manifest.attempt,
        created_at=manifest.created_at,
        files=manifest.files,
        size_bytes=manifest.size_bytes,
        left_out=manifest.left_out,
    )
    return {
        "artifact": artifact_record(kept, run_name=run_name),
        "entries": [_entry(entry) for entry in manifest.entries],
    }


def dataset_record(dataset: Dataset) -> Json:
    """A `Dataset`."""
    return {
        "id": dataset.id,
        "source": dataset.source,
        "user": dataset.user,
        "created_at": dataset.created_at,
        "state": dataset.state,
        "path": dataset.path,
        "done_bytes": dataset.done_bytes,
        "total_bytes": dataset.total_bytes,
        "message": dataset.message,
    }


def secret_record(secret: SecretVersion) -> Json:
    """A `Secret`: nothing of its value, sealed or not."""
    return {
        "name": secret.name,
        "number": secret.number,
        "user": secret.user,
        "created_at": secret.created_at,
        "form": secret.form,
        "variable": secret.variable,
        "path": secret.path,
    }


def _entry(entry: Entry) -> Json:
    return {
        "path": entry.path,
        "kind": entry.kind,
        "mode": entry.mode,
        "bytes": entry.size_bytes,
        "mtime_ns": entry.mtime_ns,
        "pieces": [{"digest": chunk.digest, "bytes": chunk.size_bytes} for chunk in entry.chunks],
        "target": entry.target,
        "inside": entry.inside,
    }
