"""The versions in a store of artifacts: the server lists, finds, reads and removes them here.

Summaries are cached: the only change of a manifest is `reduce`. `expired_versions` is pure: it selects the
oldest versions beyond the retained number, and all versions of runs that ended too long ago; never the latest
version of a live run, nor the input of another live run. `collect` removes unused pieces.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions import manifest as stored
from tarmac.artifacts.versions import store_lock
from tarmac.artifacts.versions.blobs import Blobs, begin_store, check_store
from tarmac.artifacts.versions.fenced import FENCES
from tarmac.artifacts.versions.manifest import BLOBS, FILE, Broken, Chunk, Entry, Manifest, Version
from tarmac.model.errors import NotFound, suggestion

REMEMBERED = 20_000

_DIGEST = re.compile(r"[0-9a-f]{64}")

DAY_S = 86_400.0
FENCE_DAYS = 90.0
"""The time since the start of the last attempt after which no attempt is cut off any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSummary:
    """One version in lists."""

    version: Version
    attempt: int
    created_at: float
    files: int
    size_bytes: int
    left_out: tuple[str, ...] = ()


class Catalog:
    """The versions in one store. Every method may be called from any thread, and raises Unavailable."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._summaries: OrderedDict[Version, VersionSummary] = OrderedDict()
        self._lock = Lock()

    def begin(self, marker: Path) -> None:
        """Create a store in an empty place, once. Then the file `marker` names it, and it must not be empty.

        Raises Unavailable while it cannot be reached, or has disappeared.
        """
        if marker.exists() and marker.read_text() == self.url:
            check_store(self.blobs)
            return
        begin_store(self.blobs)
        marker.write_text(self.url)

    @cached_property
    def blobs(self) -> Blobs:
        """The store itself, opened on its first use."""
        return open_blobs(self.url)

    def summaries(self, run_id: str | None = None) -> list[VersionSummary]:
        """Every whole version of a run, or of all runs, in order."""
        found = []
        for version in stored.versions(self.blobs, run_id):
            summary = self._summaries.get(version) or self._read(version)
            if summary is not None:
                found.append(summary)
        return found

    def exact(self, reference: str) -> Version | None:
        """The version that an id names (the latest one without a number); None for any other text."""
        named = stored.parse_id(reference)
        if named is None:
            return None
        newest = self.latest(named.run_id, named.kind, named.rank)
        if newest is None or named.number in (0, newest.number):
            return newest
        return named if self.holds(named) else None

    def holds(self, version: Version) -> bool:
        """Whether the store has exactly this version."""
        return bool(version.number) and self.blobs.has(version.name)

    def latest(self, run_id: str, kind: str, rank: int = 0) -> Version | None:
        """The newest whole version of one kind of artifact of a run."""
        return stored.latest(self.blobs, run_id, kind, rank)

    def manifest(self, version: Version) -> Manifest:
        """The content of a version; raises NotFound if it does not exist, or is damaged."""
        try:
            return stored.read_manifest(self.blobs, version)
        except Broken as error:
            raise NotFound(str(error)) from error

    def piece(self, digest: str) -> bytes:
        """A piece of a file by its digest; raises NotFound."""
        if not _DIGEST.fullmatch(digest):
            raise NotFound(f"{digest[:80]!r} is no digest")
        try:
            return stored.read_chunk(self.blobs, Chunk(digest, 0))
        except Broken as error:
            raise NotFound(str(error)) from error

    def remove(self, versions: Sequence[Version]) -> None:
        """Remove versions. `retention.collect` later removes the unused pieces."""
        for version in versions:
            self.blobs.remove(version.name)
            with self._lock:
                self._summaries.pop(version, None)

    def reduce(self, manifest: Manifest, left: Sequence[Entry]) -> None:
        """Reduce a version to these entries; without a file among them the version is removed."""
        if any(entry.kind == FILE for entry in left):
            self.blobs.put(manifest.version.name, stored.to_bytes(manifest._replace(entries=tuple(left))))
        else:
            self.blobs.remove(manifest.version.name)
        with self._lock:
            self._summaries.pop(manifest.version, None)

    def unknown(self, reference: str, *, others: Sequence[str] = ()) -> NotFound:
        """The error for a text that names no artifact, with the nearest name."""
        ids = [version.id for version in stored.versions(self.blobs)]
        hint = suggestion(reference, [*ids, *others], "tarmac artifacts ls lists them")
        return NotFound(f"there is no artifact {reference!r}", hint=hint)

    def _read(self, version: Version) -> VersionSummary | None:
        try:
            manifest = stored.read_manifest(self.blobs, version)
        except (Broken, NotFound):
            return None  # damaged, or removed since it was listed
        summary = VersionSummary(
            version=version,
            attempt=manifest.attempt,
            created_at=manifest.created_at,
            files=manifest.files,
            size_bytes=manifest.size_bytes,
            left_out=manifest.left_out,
        )
        with self._lock:
            self._summaries[version] = summary
            while len(self._summaries) > REMEMBERED:
                self._summaries.popitem(last=False)
        return summary


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
        kept = stored.versions(blobs)
        needed = {
            chunk.name
            for version in kept
            for entry in stored.read_manifest(blobs, version).entries
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
