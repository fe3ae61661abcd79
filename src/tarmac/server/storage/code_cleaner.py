"""Removes code snapshots by age.

It never removes snapshots that a live run needs, or recently used ones.
"""

import logging
from dataclasses import dataclass

from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.ports import Clock, Store
from tarmac.model.spec import LocalDirectory

LEAST_AGE_S = 3_600.0
"""A lower bound: code sent within this time may be submitted soon."""

UNFINISHED_S = 86_400.0
"""The retention of an interrupted upload's packs, so that the upload can continue."""

_DAY_S = 86_400.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CodeCleaner:
    """Removes old snapshots. `keep_days`: the retention of a snapshot after its last use."""

    code: DirectoryCodeStore
    store: Store
    clock: Clock
    keep_days: float

    def tidy(self) -> None:
        """Remove old snapshots and packs."""
        now = self.clock.now()
        needed: set[str | None] = set()
        for run in self.store.live_runs():
            needed.add(run.code_digest)
            needed.add(run.spec.code.digest if isinstance(run.spec.code, LocalDirectory) else None)
        self.code.use({digest for digest in needed if digest is not None}, now=now)
        age_s = max(self.keep_days * _DAY_S, LEAST_AGE_S)
        removed = self.code.remove_unused(snapshots_before=now - age_s, packs_before=now - UNFINISHED_S)
        if removed:
            log.info("code: removed %d old snapshots and packs", removed)
