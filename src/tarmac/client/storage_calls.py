"""The methods about artifacts, datasets and secrets. Inherited by `client.Client`."""

from typing import Any, cast

from tarmac import api
from tarmac.client.calls import Calls
from tarmac.model.run_records import Dataset


class StorageCalls(Calls):
    """One method per operation. Inherited by `Client`. No method returns the value of a secret."""

    def artifacts(self, run: str | None = None) -> list[api.Artifact]:
        """Every version of the artifacts of a run (by id or name), or of all runs."""
        return self._call(api.ARTIFACTS, query=api.ArtifactsQuery(run=run))

    def artifact(self, reference: str, *, kind: str = "checkpoint") -> api.ArtifactContent:
        """One version with its entries: by its id, or the latest of a kind by its run's id or name."""
        return self._call(api.ARTIFACT, reference, query=api.ArtifactQuery(kind=kind))

    def artifact_piece(self, digest: str) -> bytes:
        """A piece of a file in an artifact."""
        return self._content(api.ARTIFACT_PIECE, digest)

    def remove_artifact(self, reference: str) -> api.ArtifactContent:
        """Remove one version, by its id; return its last record."""
        return self._call(api.REMOVE_ARTIFACT, reference)

    def datasets(self) -> list[Dataset]:
        """Every dataset with its state."""
        return self._call(api.DATASETS)

    def add_dataset(self, dataset_id: str, source: str) -> Dataset:
        """Add a dataset: a path on the server's machine, or a URL."""
        return self._call(api.ADD_DATASET, body=api.DatasetBody(id=dataset_id, source=source))

    def remove_dataset(self, dataset_id: str) -> Dataset:
        """Remove a dataset; return its last record."""
        return self._call(api.REMOVE_DATASET, dataset_id)

    def secrets(self) -> list[api.Secret]:
        """Every secret, without its value."""
        return self._call(api.SECRETS)

    def set_secret(
        self,
        name: str,
        value: str,
        *,
        form: str | None = None,
        variable: str | None = None,
        path: str | None = None,
    ) -> api.Secret:
        """Store a value, which replaces an earlier one; runs get it at their next start."""
        body = api.SecretBody(value=value, form=cast(Any, form), variable=variable, path=path)
        return self._call(api.SET_SECRET, name, body=body)

    def remove_secret(self, name: str, *, force: bool = False, purge: bool = False) -> api.Secret | None:
        """Stop giving a secret to runs; `purge` deletes its values as well."""
        return self._call(api.REMOVE_SECRET, name, query=api.RemoveSecretQuery(force=force, purge=purge))

    def rotate_secrets(self) -> api.Rotation:
        """Seal every value with a new key, and delete the old ones."""
        return self._call(api.ROTATE_SECRETS)
