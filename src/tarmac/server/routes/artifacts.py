"""`/artifacts`: lists, reads and removes artifacts of runs. Joined by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac import api
from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.manifest import Entry, Manifest
from tarmac.model.actor import Actor
from tarmac.server.http.answers import JsonAnswer, notice
from tarmac.server.http.auth import CallingActor
from tarmac.server.service import Service


def artifact_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about artifacts."""
    artifacts = service.artifacts

    @router.get("/artifacts", response_model=list[api.Artifact])
    def every(actor: CallingActor, run: str | None = None) -> Response:
        """Return every version of the artifacts of a run, or of all runs, oldest run first."""
        missing: list[str] = []
        one_run = service.plane.find(actor, run) if run is not None else None
        found = artifacts.versions(actor, one_run, on_missing=missing.append)
        names = artifacts.names(sorted({item.version.run_id for item in found}))
        records = [artifact_record(item, run_name=names.get(item.version.run_id)) for item in found]
        return JsonAnswer(records, headers=notice(missing[0] if missing else None))

    @router.get("/artifacts/{reference}", response_model=api.ArtifactContent)
    def one(actor: CallingActor, reference: str, kind: str = "checkpoint") -> Response:
        """Return one version and its content: by its id, or the latest of a kind by its run's id or name."""
        return JsonAnswer(_content(actor, reference, kind))

    @router.get("/artifact-pieces/{digest}", response_class=Response)
    def piece(actor: CallingActor, digest: str) -> Response:
        """Return a piece of a file, by the SHA-256 of its content."""
        return Response(artifacts.piece(actor, digest), media_type="application/octet-stream")

    @router.delete("/artifacts/{reference}", response_model=api.ArtifactContent)
    def remove(actor: CallingActor, reference: str) -> Response:
        """Remove one version, by its id, and return its record. Refused while a run needs it."""
        removed = _content(actor, reference, "checkpoint")
        artifacts.remove(actor, reference)
        return JsonAnswer(removed)

    def _content(actor: Actor, reference: str, kind: str) -> api.ArtifactContent:
        manifest = artifacts.content(actor, reference, kind=kind)
        run_id = manifest.version.run_id
        return content_record(manifest, run_name=artifacts.names([run_id]).get(run_id))


def artifact_record(source: VersionSummary | Manifest, *, run_name: str | None) -> api.Artifact:
    version = source.version
    return api.Artifact(
        id=version.id,
        run=version.run_id,
        run_name=run_name,
        kind=version.kind,
        number=version.number,
        rank=version.rank,
        attempt=source.attempt,
        created_at=source.created_at,
        files=source.files,
        bytes=source.size_bytes,
        left_out=source.left_out,
    )


def content_record(manifest: Manifest, *, run_name: str | None) -> api.ArtifactContent:
    entries = [_entry_record(entry) for entry in manifest.entries]
    return api.ArtifactContent(artifact=artifact_record(manifest, run_name=run_name), entries=entries)


def _entry_record(entry: Entry) -> api.ArtifactEntry:
    return api.ArtifactEntry(
        path=entry.path,
        kind=entry.kind,
        mode=entry.mode,
        bytes=entry.size_bytes,
        mtime_ns=entry.mtime_ns,
        pieces=[api.Piece(digest=chunk.digest, bytes=chunk.size_bytes) for chunk in entry.chunks],
        target=entry.target,
        inside=entry.inside,
    )
