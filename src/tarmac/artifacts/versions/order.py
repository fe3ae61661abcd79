"""What an attempt tells its sidecar: which store, which directories, how often. Read from attempt.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tarmac.node.attempt import protocol
from tarmac.node.files import untrusted


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One node's part. `state` is a file beside the directories that says what lies in them."""

    run_id: str
    attempt: int
    node: str
    rank: int
    own_disk: bool
    store: str
    directories: Mapping[str, str]
    state: Path
    every_s: Mapping[str, float]
    patience_s: float
    inputs: tuple[str, ...]


def read_order(attempt_directory: Path, node: str) -> Order:
    """The order of a node; raises ValueError, KeyError or OSError for an attempt that has none."""
    told: Mapping[str, Any] = untrusted.read_object(
        str(attempt_directory / protocol.ATTEMPT_FILE), untrusted.DOCUMENT_BYTES
    )
    mine = next(item for item in told["nodes"] if item["node"] == node)
    sync = told["sync"]
    return Order(
        run_id=told["run_id"],
        attempt=int(told["number"]),
        node=node,
        rank=int(mine["rank"]),
        own_disk=bool(mine.get("own_disk")),
        store=sync["store"],
        directories={**told["artifacts"], **(mine.get("artifacts") or {})},
        state=Path(mine["artifact_state"]),
        every_s={kind: float(every) for kind, every in sync["every_s"].items()},
        patience_s=float(sync["patience_s"]),
        inputs=tuple(sync.get("inputs") or ()),
    )
