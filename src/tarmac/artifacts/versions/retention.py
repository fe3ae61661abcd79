"""Which versions have had their time, and clearing up what no version needs. Called by the server.

The decision is pure. What goes: more than so many versions of one artifact, the oldest first, and everything
of runs that ended so long ago. Never: the latest of a run that has not ended, and what another run that has
not ended names as its input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tarmac.artifacts.versions import store_lock
from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.catalog import Kept
from tarmac.artifacts.versions.listed import read_manifest, versions
from tarmac.artifacts.versions.manifest import BLOBS, Version

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How many versions of an artifact stay, and how long after the end of their run (None: always)."""

    versions: int
    days: float | None


def expired(
    kept: Sequence[Kept],
    *,
    rules: Rules,
    now: float,
    ended_at: Mapping[str, float | None],
    inputs: Collection[str],
) -> list[Version]:
    """What is to go. `ended_at` tells of every known run when it ended (None: it has not)."""
    artifacts: dict[tuple[str, str, int], list[Version]] = defaultdict(list)
    for item in kept:
        artifacts[item.version.run_id, item.version.kind, item.version.rank].append(item.version)
    gone: list[Version] = []
    for (run_id, _, _), found in artifacts.items():
        if run_id not in ended_at:
            continue  # another server's, for all we know
        at = ended_at[run_id]
        newest_first = sorted(found, reverse=True)
        over = rules.days is not None and at is not None and now - at > rules.days * DAY_S
        stay = 0 if over else rules.versions
        gone += [version for version in newest_first[stay:] if version.id not in inputs]
    return sorted(gone)


def collect(blobs: Blobs) -> int | None:
    """Remove every piece that no version names; how many. None: a sync is at work, nothing was done."""
    with store_lock.collecting(blobs) as alone:
        if not alone:
            return None
        needed = {
            chunk.name
            for version in versions(blobs)
            for entry in read_manifest(blobs, version).entries
            for chunk in entry.chunks
        }
        unused = [held.name for held in blobs.held(BLOBS) if held.name not in needed]
        for name in unused:
            blobs.remove(name)
        return len(unused)
