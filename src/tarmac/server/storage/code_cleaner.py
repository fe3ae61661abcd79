"""Code that runs brought, cleared up by age.

Made by `wiring`; a thread of its own looks now and then. What a run that has not ended needs is never
touched, and a snapshot that somebody used lately neither.
"""

from __future__ import annotations

import logging

from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.ports import Clock, Store
from tarmac.model.spec import LocalDirectory
from tarmac.server.storage.janitor import Janitor

TIDY_EVERY_S = 3_600.0
LEAST_AGE_S = 3_600.0
"""However few days are set: what was sent this hour may be about to be submitted."""

UNFINISHED_S = 86_400.0
"""How long what an upload that broke off has sent is kept, so that it can go on."""

_DAY_S = 86_400.0

log = logging.getLogger(__name__)


class CodeCleaner:
    """Removes what has had its time. `keep_days`: how long after its last use a snapshot is kept."""

    def __init__(
        self,
        code: DirectoryCodeStore,
        store: Store,
        clock: Clock,
        *,
        keep_days: float | None,
    ) -> None:
        self._code = code
        self._store = store
        self._clock = clock
        self._keep_days = keep_days
        self.janitor = Janitor("code", self.tidy, every_s=TIDY_EVERY_S)

    def tidy(self) -> None:
        """Remove what has had its time."""
        if self._keep_days is None:
            return
        live = self._store.live_runs()
        now = self._clock.now()
        sent = [run.spec.code.digest for run in live if isinstance(run.spec.code, LocalDirectory)]
        needed = {digest for digest in (*sent, *(run.code_digest for run in live)) if digest is not None}
        self._code.use(needed, now=now)
        age_s = max(self._keep_days * _DAY_S, LEAST_AGE_S)
        removed = self._code.remove_unused(snapshots_before=now - age_s, packs_before=now - UNFINISHED_S)
        if removed:
            log.info("code: %d snapshots and packs had had their time", removed)
