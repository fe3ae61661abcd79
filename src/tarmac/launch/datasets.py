"""Datasets in a launch: read-only at /data/<id>, and by a variable. Pure. Called by the dataset service."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tarmac.node.attempt.document import Launch, Mount

ROOT = "/data"
PREFIX = "TARMAC_DATASET_"


def variable(dataset_id: str) -> str:
    """The variable with the path of a dataset: its id in capitals, other characters as underscores."""
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", dataset_id.upper())


def with_datasets(launch: Launch, paths: Mapping[str, str]) -> Launch:
    """The launch with these datasets (id -> path on the node) on each of its nodes."""
    mounts = tuple(
        Mount(source=path, target=f"{ROOT}/{dataset_id}", read_only=True, variables=(variable(dataset_id),))
        for dataset_id, path in paths.items()
    )
    if not mounts:
        return launch
    return launch._replace(
        nodes=tuple(node._replace(mounts=(*node.mounts, *mounts)) for node in launch.nodes)
    )
