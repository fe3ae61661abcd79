"""What a new run names and only the server knows: datasets and input artifacts. Made by `wiring`."""

from __future__ import annotations

from dataclasses import replace

from tarmac.model.errors import InvalidInput
from tarmac.model.ports import Settle
from tarmac.model.spec import RunSpec
from tarmac.server.artifact_desk import ArtifactDesk
from tarmac.server.dataset_desk import DatasetDesk


def settling(artifacts: ArtifactDesk, datasets: DatasetDesk) -> Settle:
    """Checks both, and pins input artifacts to the versions that stand now: the record says what was read."""

    def settle(spec: RunSpec) -> RunSpec:
        if not spec.datasets and not spec.input_artifacts:
            return spec
        problems = datasets.problems(spec.datasets) if spec.datasets else []
        pinned, wrong = artifacts.settle(spec.input_artifacts)
        problems += wrong
        if problems:
            raise InvalidInput(problems)
        return replace(spec, input_artifacts=pinned)

    return settle
