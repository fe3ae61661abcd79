"""The methods of `tarmac.Client` about artifacts and datasets. Inherited by `client.Client`."""

from __future__ import annotations

from tarmac import api
from tarmac.client.calls import Calls, segment
from tarmac.model.dataset import Dataset


class ArtifactCalls(Calls):
    """One method per route. Inherited by `Client`."""

    def artifacts(self, run: str | None = None) -> list[api.Artifact]:
        """Every version of the artifacts of a run (by id or name), or of all runs."""
        return self._get_as(list[api.Artifact], "/artifacts", run=run)

    def artifact(self, reference: str, *, kind: str = "checkpoint") -> api.ArtifactContent:
        """One version with its entries: by its id, or the latest of a kind by its run's id or name."""
        return self._get_as(api.ArtifactContent, f"/artifacts/{segment('artifact', reference)}", kind=kind)

    def artifact_piece(self, digest: str) -> bytes:
        """A piece of a file in an artifact."""
        return self._transport.request("GET", f"/artifact-pieces/{segment('artifact piece', digest)}").body

    def remove_artifact(self, reference: str) -> api.ArtifactContent:
        """Remove one version, by its id; return its last record."""
        return self._send_as(api.ArtifactContent, "DELETE", f"/artifacts/{segment('artifact', reference)}")

    def datasets(self) -> list[Dataset]:
        """Every dataset with its state."""
        return self._get_as(list[Dataset], "/datasets")

    def add_dataset(self, dataset_id: str, source: str) -> Dataset:
        """Add a dataset: a path on the server's machine, or a URL."""
        return self._send_as(Dataset, "POST", "/datasets", {"id": dataset_id, "source": source})

    def remove_dataset(self, dataset_id: str) -> Dataset:
        """Remove a dataset; return its last record."""
        return self._send_as(Dataset, "DELETE", f"/datasets/{segment('dataset', dataset_id)}")
