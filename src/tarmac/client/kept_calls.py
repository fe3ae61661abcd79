"""The methods of `tarmac.Client` about what runs leave and read: artifacts and datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tarmac.client.calls import Calls, segment

if TYPE_CHECKING:
    from tarmac.client.kept_records import ArtifactContentRecord, ArtifactRecord, DatasetRecord


class KeptCalls(Calls):
    """One method per route. Inherited by `Client`."""

    def artifacts(self, run: str | None = None) -> list[ArtifactRecord]:
        """Every version of the artifacts of a run (by id or name), or of all runs."""
        query = f"?{urlencode({'run': run})}" if run is not None else ""
        answer: list[ArtifactRecord] = self._get(f"/artifacts{query}")
        return answer

    def artifact(self, reference: str, *, kind: str = "checkpoint") -> ArtifactContentRecord:
        """One version and what it holds: by its id, or the latest of a kind by its run's id or name."""
        query = urlencode({"kind": kind})
        answer: ArtifactContentRecord = self._get(f"/artifacts/{segment('artifact', reference)}?{query}")
        return answer

    def artifact_piece(self, digest: str) -> bytes:
        """A piece of a file of an artifact."""
        return self._transport.request("GET", f"/artifact-pieces/{segment('artifact piece', digest)}").body

    def remove_artifact(self, reference: str) -> ArtifactContentRecord:
        """Remove one version, by its id; the answer is what it was."""
        answer: ArtifactContentRecord = self._send("DELETE", f"/artifacts/{segment('artifact', reference)}")
        return answer

    def datasets(self) -> list[DatasetRecord]:
        """Every dataset and how far it has come."""
        answer: list[DatasetRecord] = self._get("/datasets")
        return answer

    def add_dataset(self, dataset_id: str, source: str) -> DatasetRecord:
        """Take up a dataset: a path of the server's machine, or a URL."""
        answer: DatasetRecord = self._send("POST", "/datasets", {"id": dataset_id, "source": source})
        return answer

    def remove_dataset(self, dataset_id: str) -> DatasetRecord:
        """Forget a dataset; the answer is what it was."""
        answer: DatasetRecord = self._send("DELETE", f"/datasets/{segment('dataset', dataset_id)}")
        return answer
