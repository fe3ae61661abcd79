"""Artifacts and datasets as tables. Called by `tarmac artifacts` and `tarmac datasets`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.cli.views.amounts import age, size
from tarmac.cli.views.table import Cell, heads, render
from tarmac.cli.views.terminal import Terminal

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.model.dataset import Dataset

_ARTIFACTS = heads(
    "ID, RUN, KIND, ATTEMPT, FILES, SIZE, KEPT",
    right="ATTEMPT, FILES, SIZE, KEPT",
    flexible="RUN",
    optional="ATTEMPT",
)
_DATASETS = heads("ID, STATE, SIZE, ADDED, FROM, WHY", right="SIZE, ADDED", flexible="FROM", optional="ADDED")
_STYLES = {"available": "green", "failed": "red", "caching": "yellow"}


def artifact_table(artifacts: Sequence[api.Artifact], terminal: Terminal, *, now: float) -> str:
    """A table with a line for each version."""
    rows = (
        (
            artifact.id,
            artifact.run_name or "",
            artifact.kind,
            str(artifact.attempt),
            _files(artifact),
            size(artifact.bytes),
            age(artifact.created_at, now),
        )
        for artifact in artifacts
    )
    return render(_ARTIFACTS, rows, terminal)


def dataset_table(datasets: Sequence[Dataset], terminal: Terminal, *, now: float) -> str:
    """A table with a line for each dataset."""
    rows = (
        (
            dataset.id,
            Cell(dataset.state, _STYLES.get(dataset.state)),
            _amount(dataset),
            age(dataset.created_at, now),
            dataset.source,
            dataset.message or "",
        )
        for dataset in datasets
    )
    return render(_DATASETS, rows, terminal)


def _files(artifact: api.Artifact) -> str:
    """The number of files, and how many incomplete ones were left out."""
    left_out = len(artifact.left_out)
    return f"{artifact.files} ({left_out} left out)" if left_out else str(artifact.files)


def _amount(dataset: Dataset) -> str:
    """The amount fetched so far; empty for data that is used in place."""
    done, total = dataset.done_bytes, dataset.total_bytes
    if dataset.state == "caching" and total:
        return f"{size(done)} of {size(total)}"
    return size(done) if done else ""
