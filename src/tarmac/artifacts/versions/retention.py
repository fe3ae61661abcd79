"""Retention: selects versions to remove by age and number, and removes unused pieces.

`expired_versions` is pure. It selects the oldest versions beyond the retained number, and all versions of
runs that ended too long ago; never the latest version of a live run, nor the input of another live run.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tarmac.artifacts.versions import store_lock
from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.fenced import FENCES
from tarmac.artifacts.versions.manifest import BLOBS, Version, read_manifest, versions

DAY_S = 86_400.0
FENCE_DAYS = 90.0
"""The time since the start of the last attempt after which no attempt is cut off any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The retained number of versions of an artifact, and their time after the end of their run (None:
    always).
    """

    versions: int
    days: float | None


def expired_versions(
    summaries: Sequence[VersionSummary],
    *,
    rules: Rules,
    now: float,
    ended_at: Mapping[str, float | None],
    inputs: Collection[str],
    spared: Collection[str] = (),
) -> list[Version]:
    """The versions to remove. `ended_at` has the end of every known run (None: a live run).

    Versions of `spared` expire by age alone, regardless of their number.
    """
    artifacts: dict[tuple[str, str, int], list[Version]] = defaultdict(list)
    for item in summaries:
        artifacts[item.version.run_id, item.version.kind, item.version.rank].append(item.version)
    old: list[Version] = []
    for (run_id, _, _), found in artifacts.items():
        if run_id not in ended_at:
            continue  # possibly a run of another server
        at = ended_at[run_id]
        newest_first = sorted(found, reverse=True)
        too_old = rules.days is not None and at is not None and now - at > rules.days * DAY_S
        stay = 0 if too_old else rules.versions
        stays = inputs if too_old else {*inputs, *spared}
        old += [version for version in newest_first[stay:] if version.id not in stays]
    return sorted(old)


def collect(blobs: Blobs) -> int | None:
    """Remove every unused piece; returns their number. None: a sync runs, nothing was removed."""
    with store_lock.collecting(blobs) as exclusive:
        if not exclusive:
            return None
        kept = versions(blobs)
        needed = {
            chunk.name
            for version in kept
            for entry in read_manifest(blobs, version).entries
            for chunk in entry.chunks
        }
        unused = [piece.name for piece in blobs.pieces(BLOBS) if piece.name not in needed]
        for name in (*unused, *_old_fences(blobs, {version.run_id for version in kept})):
            blobs.remove(name)
        return len(unused)


def _old_fences(blobs: Blobs, run_ids: Collection[str]) -> list[str]:
    """The marks of attempts that began long ago, of runs without versions."""
    before = time.time() - FENCE_DAYS * DAY_S
    marks = [piece for piece in blobs.pieces(FENCES) if piece.changed_at < before]
    return [piece.name for piece in marks if piece.name.split("/")[1] not in run_ids]
