"""Artifacts, datasets and secrets. Joined by `server.app`."""

from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from tarmac import api
from tarmac.api.operation import BYTES, Query
from tarmac.artifacts.datasets import shown
from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.manifest import FILE, Entry, Manifest
from tarmac.model.codec import common, inherited, replace
from tarmac.model.errors import NotFound
from tarmac.model.run_records import Dataset
from tarmac.model.secret import Secret, SecretVersion
from tarmac.server.http.answers import JsonAnswer, notice
from tarmac.server.http.routing import Call, serve
from tarmac.server.service import Handlers


class StorageHandlers(Handlers):
    """The routes about artifacts, datasets and secrets."""

    @serve(api.ARTIFACTS)
    def every_artifact(self, call: Call[api.ArtifactsQuery]) -> Response:
        """Return every whole version of the artifacts of a run, or of all, oldest run first; `limit`: newest.

        The header `Tarmac-Notice` (percent-encoded) has the reason if artifacts of a run are not here yet.
        """
        missing, run = list[str](), call.query.run
        if run is None and call.query.limit is not None:
            found = self.service.artifacts.newest(call.actor, call.query.text.lower(), call.query.limit)
        else:
            one_run = self.plane.find(call.actor, run) if run is not None else None
            found = self.service.artifacts.versions(call.actor, one_run, on_missing=missing.append)
        names = self.service.artifacts.names(sorted({item.version.run_id for item in found}))
        records = [artifact_record(item, run_name=names.get(item.version.run_id)) for item in found]
        return JsonAnswer(records, headers=notice(missing[0] if missing else None))

    @serve(api.ARTIFACT)
    def artifact(self, call: Call[api.ArtifactQuery]) -> api.ArtifactContent:
        """Return one version and its content: by its id, or the latest of a kind by its run's id or name."""
        return self._record(self.service.artifacts.content(call.actor, call.reference, kind=call.query.kind))

    @serve(api.ARTIFACT_FILE)
    def artifact_file(self, call: Call[api.ArtifactFileQuery]) -> Response:
        """Return a file of one version, as a download. 404 if the version has no file with that path."""
        entries, path = self.service.artifacts.content(call.actor, call.reference).entries, call.query.path
        entry = next((each for each in entries if (each.path, each.kind) == (path, FILE)), None)
        if entry is None:
            raise NotFound(f"{call.reference} has no file {path!r:.200}")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}",
            "Content-Length": str(entry.size_bytes),
            "X-Content-Type-Options": "nosniff",
        }
        pieces = (self.service.artifacts.piece(call.actor, chunk.digest) for chunk in entry.chunks)
        return StreamingResponse(pieces, media_type=BYTES, headers=headers)

    @serve(api.REMOVE_ARTIFACT)
    def remove_artifact(self, call: Call) -> api.ArtifactContent:
        """Remove one version, by its id, and return its record.

        409 while a run resumes from it or reads it.
        """
        removed = self._record(self.service.artifacts.content(call.actor, call.reference, kind="checkpoint"))
        self.service.artifacts.remove(call.actor, call.reference)
        return removed

    def _record(self, manifest: Manifest) -> api.ArtifactContent:
        run_id = manifest.version.run_id
        artifact = artifact_record(manifest, run_name=self.service.artifacts.names([run_id]).get(run_id))
        return api.ArtifactContent(
            artifact=artifact, entries=[_entry_record(each) for each in manifest.entries]
        )

    @serve(api.ARTIFACT_PIECE)
    def artifact_piece(self, call: Call) -> bytes:
        """Return a piece of a file, by the SHA-256 of its content."""
        return self.service.artifacts.piece(call.actor, call.reference)

    @serve(api.SET_SECRET)
    def set_secret(self, call: Call[api.SecretQuery, api.SecretBody]) -> Secret:
        """Store a value, in place of an earlier one of that scope; runs get it from their next attempt on."""
        return _without_value(
            self.service.secrets.set(call.actor, call.reference, call.body, scope=call.query.scope)
        )

    @serve(api.REMOVE_SECRET)
    def remove_secret(self, call: Call[api.RemoveSecretQuery]) -> Secret | None:
        """Remove a secret from all later attempts, and return its record, null if there were only old values.

        409 while a run needs it, unless forced, and if several owners have one of that name.
        """
        query = call.query
        gone = self.service.secrets.remove(
            call.actor, call.reference, scope=query.scope, force=query.force, purge=query.purge
        )
        return _without_value(gone) if gone is not None else None

    @serve(api.SECRETS)
    def every_secret(self, call: Call) -> list[Secret]:
        """Return the caller's secrets, those of the caller's projects and those for everyone, without values.

        Administrators get the secrets of all users. No answer ever has a value.
        """
        return [_without_value(secret) for secret in self.service.secrets.all(call.actor)]

    @serve(api.ROTATE_SECRETS)
    def rotate_secrets(self, call: Call) -> api.Rotation:
        """Encrypt every value with a new key, and delete the old keys."""
        return api.Rotation(values=self.service.secrets.rotate(call.actor))

    @serve(api.DATASETS)
    def every_dataset(self, call: Call) -> list[Dataset]:
        """Return every dataset and its progress."""
        return [_without_credentials(each) for each in self.service.datasets.all(call.actor)]

    @serve(api.ADD_DATASET)
    def add_dataset(self, call: Call[Query, api.DatasetBody]) -> Dataset:
        """Add a dataset; remote data is downloaded once. A failed one is tried again.

        409 if there is another dataset with that id.
        """
        return _without_credentials(self.service.datasets.add(call.actor, call.body.id, call.body.source))

    @serve(api.REMOVE_DATASET)
    def remove_dataset(self, call: Call) -> Dataset:
        """Remove a dataset and its downloaded files, and return its record. 409 while a run reads it."""
        return _without_credentials(self.service.datasets.remove(call.actor, call.reference))


def artifact_record(source: VersionSummary | Manifest, *, run_name: str | None) -> api.Artifact:
    version = source.version
    return api.Artifact(
        **common(api.Artifact, version),
        **common(api.Artifact, source),
        run=version.run_id,
        run_name=run_name,
        bytes=source.size_bytes,
    )


def _entry_record(entry: Entry) -> api.ArtifactEntry:
    return api.ArtifactEntry(
        **common(api.ArtifactEntry, entry),
        bytes=entry.size_bytes,
        pieces=[api.Piece(digest=chunk.digest, bytes=chunk.size_bytes) for chunk in entry.chunks],
    )


def _without_credentials(dataset: Dataset) -> Dataset:
    """A dataset, with credentials in its source hidden."""
    return replace(dataset, source=shown(dataset.source, dataset.source))


def _without_value(secret: SecretVersion) -> Secret:
    """A secret without its value."""
    return Secret(**inherited(Secret, secret))
