"""Checkpoints reported by the code of runs: their steps and their deleted files. Pure.

Their files are in the versions of the run's checkpoint artifact, in a directory named by the checkpoint's
UUID. Called by `ArtifactService`, and by the gateway that takes the reports.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tarmac.model.codec import replace
from tarmac.model.run_records import RunRecord

COMPLETED, DELETED = "STATE_COMPLETED", "STATE_DELETED"
_PARTLY = "STATE_PARTIALLY_DELETED"
_REMOVED = "removed"

Deletions = Mapping[str, Collection[str] | None]
"""The deleted paths of checkpoints, by UUID; None: the whole checkpoint."""


def steps_of(record: RunRecord) -> int:
    """The step of a checkpoint."""
    metadata = record.body.get("metadata")
    found = metadata.get("steps_completed") if isinstance(metadata, Mapping) else None
    return found if type(found) is int and found >= 0 else 0


def reduced(record: RunRecord, left: Mapping[str, Any]) -> RunRecord:
    """The record of a checkpoint reduced to these files; without any it is deleted."""
    removed = {*record.body.get(_REMOVED, ()), *(record.body.get("resources") or {})} - set(left)
    resources = {name: str(size) for name, size in left.items()}
    change = {"resources": resources, "state": _PARTLY if left else DELETED, _REMOVED: sorted(removed)}
    return replace(record, body={**record.body, **change})


def is_gone(record: RunRecord) -> bool:
    """Whether all files of a checkpoint were deleted."""
    return record.body.get("state") == DELETED


def deletions(records: Sequence[RunRecord]) -> Deletions:
    """The deleted parts of checkpoints."""
    return {
        each.name: None if is_gone(each) else frozenset(path.rstrip("/") for path in each.body[_REMOVED])
        for each in records
        if is_gone(each) or each.body.get(_REMOVED)
    }


def is_deleted(path: str, deleted: Deletions) -> bool:
    """Whether a path in the checkpoint artifact is among the deleted files."""
    name, _, inner = path.partition("/")
    removed = deleted.get(name, ())
    return removed is None or inner in removed
