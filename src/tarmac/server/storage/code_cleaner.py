"""Removes code snapshots by age.

It never removes snapshots that a live run needs, or recently used ones.
"""

import logging

from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.ports import Clock, Store
from tarmac.model.spec import LocalDirectory

LEAST_AGE_S = 3_600.0
"""A lower bound: code sent within this time may be submitted soon."""

UNFINISHED_S = 86_400.0
"""The retention of an interrupted upload's packs, so that the upload can continue."""

_DAY_S = 86_400.0

log = logging.getLogger(__name__)


class CodeCleaner:
    """Removes old snapshots. `keep_days`: the retention of a snapshot after its last use."""

    def __init__(
        self,
        code: DirectoryCodeStore,
        store: Store,
        clock: Clock,
        *,
        keep_days: float,
    ) -> None:
        self._code = code
        self._store = store
        self._clock = clock
        self._keep_days = keep_days

    def tidy(self) -> None:
        """Remove old snapshots and packs."""
        live = self._store.live_runs()
        now = self._clock.now()
        digests = [run.spec.code.digest for run in live if isinstance(run.spec.code, LocalDirectory)]
        needed = {digest for digest in (*digests, *(run.code_digest for run in live)) if digest is not None}
        self._code.use(needed, now=now)
        age_s = max(self._keep_days * _DAY_S, LEAST_AGE_S)
        removed = self._code.remove_unused(snapshots_before=now - age_s, packs_before=now - UNFINISHED_S)
        if removed:
            log.info("code: removed %d old snapshots and packs", removed)
