"""What a new run names and only the server knows: datasets, input artifacts and secrets. Made by `wiring`."""

from __future__ import annotations

from dataclasses import replace

from tarmac.model.errors import InvalidInput
from tarmac.model.ports import ResolveReferences
from tarmac.model.spec import RunSpec
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.dataset_service import DatasetService
from tarmac.server.storage.secret_service import SecretService


def resolve_references(
    artifacts: ArtifactService, datasets: DatasetService, secrets: SecretService
) -> ResolveReferences:
    """Checks all three, and pins input artifacts to the versions of now: the record says what was read."""

    def resolve(spec: RunSpec) -> RunSpec:
        spec, unknown = secrets.resolved(spec)
        if not (spec.datasets or spec.input_artifacts or unknown):
            return spec
        problems = datasets.problems(spec.datasets) if spec.datasets else []
        pinned, wrong = artifacts.resolve(spec.input_artifacts)
        problems += [*wrong, *unknown]
        if problems:
            raise InvalidInput(problems)
        return replace(spec, input_artifacts=pinned)

    return resolve
