"""Copies artifacts from stores at sites into the store of this server, and removes them at the sites.

A thread checks every site with live attempts, and once more after these have ended. Each site has its own
thread: a site that hangs does not delay others. Requests about a run (`fetch`) are served at once.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from weakref import WeakSet

from tarmac.artifacts.versions.catalog import Catalog
from tarmac.artifacts.versions.manifest import Broken, Version
from tarmac.artifacts.versions.site_store import SiteStore
from tarmac.model.abilities import KeepsFiles, StoreFiles
from tarmac.model.errors import NotFound, TarmacError
from tarmac.model.lifecycle import RunState
from tarmac.model.ports import Store
from tarmac.model.run import Run

LOOK_S = 20.0
CLEAR_EVERY_S = 3_600.0
ANSWER_S = 10.0
"""The time that a request waits for pending work."""

EVERYTHING, CLEARING = "*", "-"
"""In the place of a run id: every run of a site, and the removal of unneeded artifacts at the site."""

REMEMBERED = 10_000

log = logging.getLogger(__name__)


@dataclass(slots=True)
class SiteArtifacts:
    """The stores at sites. `engines` are those whose nodes may store artifacts there, by cluster.

    It fetches the newest `keep_versions` of each artifact of a run, and all of trials. From any thread.
    """

    catalog: Catalog
    store: Store
    engines: Callable[[], Mapping[str, KeepsFiles]] = field(kw_only=True)
    keep_versions: int = field(kw_only=True)
    look_s: float = LOOK_S
    answer_s: float = ANSWER_S
    _ending: Event = field(default_factory=Event, init=False)
    _workers: dict[str, _Worker] = field(default_factory=dict, init=False)
    _complete: set[str] = field(default_factory=set, init=False)
    _damaged: set[Version] = field(default_factory=set, init=False)
    _begun: WeakSet[StoreFiles] = field(default_factory=WeakSet, init=False)

    def start(self) -> None:
        """Start the thread."""
        Thread(target=self._look_again, name="tarmac-site-artifacts", daemon=True).start()

    def stop(self) -> None:
        """Stop pending work; the next server continues it."""
        self._ending.set()

    # --- for the artifact service

    def fetch(self, run: Run) -> str:
        """Request a run's artifacts from its site and wait briefly; returns why some are missing, or ""."""
        key = run.spec.target.cluster
        if key is None or run.id in self._complete or self._files(key) is None:
            return ""
        why = self._worker(key).request(run.id, wait_s=self.answer_s)
        if not why and run.state is RunState.ENDED and len(self._complete) < REMEMBERED:
            self._complete.add(run.id)
        return why and f"what cluster {key} keeps of {run.name} is not all here yet: {why}"

    def fetch_all(self, cluster: str) -> str:
        """Request the artifacts of all runs at the site of a cluster, as `fetch` does for one run."""
        if self._files(cluster) is None:
            return ""
        return self._worker(cluster).request(EVERYTHING, wait_s=self.answer_s)

    def remove(self, run: Run) -> None:
        """Remove an ended run's artifacts at its site. Raises Unavailable."""
        files = self._files(run.spec.target.cluster)
        if files is not None:
            self._open(files).remove(run.id)

    # --- for engines

    def send(self, files: StoreFiles, run_id: str, inputs: Sequence[str]) -> None:
        """Ensure that a site has a store with the inputs of a run's attempt. Raises Unavailable."""
        store = self._open(files)
        if files not in self._begun:
            store.begin()
            self._begun.add(files)
        store.send(run_id, inputs)

    # --- inside

    def _look_again(self) -> None:
        live: Collection[str] = ()
        cleared_at = float("-inf")
        while True:
            try:
                keys = [key for key in self.engines() if self._files(key) is not None]
                before = keys if cleared_at < 0 else live
                live = {attempt.allocation.cluster for attempt in self.store.live_attempts()} if keys else ()
                clears = time.monotonic() - cleared_at > CLEAR_EVERY_S
                for key in keys:
                    if clears or key in live or key in before:
                        self._worker(key).request(EVERYTHING, *([CLEARING] if clears else []))
                cleared_at = time.monotonic() if clears else cleared_at
            except Exception:  # a bug or an unreachable database must not end the thread
                log.exception("artifacts at sites could not be looked after")
            if self._ending.wait(self.look_s):
                return

    def _work(self, key: str, requests: Collection[str]) -> None:
        """Fetch the requested artifacts from a site. Raises Unavailable."""
        files = self._files(key)
        if files is None:
            return
        store = self._open(files)
        if EVERYTHING in requests or CLEARING in requests:
            found = store.unfetched()
        else:
            found = [version for run_id in sorted(requests) for version in store.unfetched(run_id)]
        runs = self.store.load_runs(sorted({version.run_id for version in found}))
        chosen, old = self._select([version for version in found if version.run_id in runs], runs)
        for version in chosen:
            self._fetch(store, version)
        if CLEARING in requests:
            inputs = {text for run in self.store.live_runs() for text in run.spec.input_artifacts}
            store.clear(inputs=inputs, old=[version for version in old if version.id not in inputs])

    def _select(
        self, found: Sequence[Version], runs: Mapping[str, Run]
    ) -> tuple[list[Version], list[Version]]:
        """The versions to fetch, newest first, and those that are too old to fetch."""
        artifacts: dict[tuple[str, str, int], list[Version]] = defaultdict(list)
        for version in sorted(found, reverse=True):
            artifacts[version.run_id, version.kind, version.rank].append(version)
        chosen: list[Version] = []
        old: list[Version] = []
        for (run_id, _, _), newest_first in artifacts.items():
            count = len(newest_first) if runs[run_id].spec.trial is not None else self.keep_versions
            chosen += newest_first[:count]
            old += newest_first[count:]
        return chosen, old

    def _fetch(self, store: SiteStore, version: Version) -> None:
        if version in self._damaged:
            return
        try:
            store.fetch(version)
        except NotFound:
            pass  # removed since the listing
        except Broken as error:
            log.warning("%s cannot be fetched: %s", version.id, error)
            self._damaged.add(version)

    def _files(self, key: str | None) -> StoreFiles | None:
        engine = self.engines().get(key) if key is not None else None
        return engine.artifact_files() if engine is not None else None

    def _open(self, files: StoreFiles) -> SiteStore:
        return SiteStore(files, lambda: self.catalog.blobs, url=self.catalog.url, ending=self._ending)

    def _worker(self, key: str) -> _Worker:
        return self._workers.setdefault(key, _Worker(key, self._work, self._ending))


class _Worker:
    """The thread of a site: executes all pending requests, one after the other."""

    def __init__(self, key: str, work: Callable[[str, Collection[str]], None], ending: Event) -> None:
        self._key = key
        self._work = work
        self._ending = ending
        self._changed = Condition()
        self._requests: set[str] = set()
        self._count = self._done = 0
        self._trouble = ""
        self._thread: Thread | None = None

    def request(self, *what: str, wait_s: float = 0.0) -> str:
        """Request work, and wait for a limited time; returns why it is not done, or ""."""
        with self._changed:
            self._requests.update(what)
            self._count += 1
            number = self._count
            if self._thread is None:
                self._thread = Thread(target=self._run, name=f"artifacts-{self._key}", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._done >= number, wait_s):
                return "it is being fetched"
            return self._trouble

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._requests))
                requests, self._requests, number = self._requests, set(), self._count
            trouble = self._try(requests)
            with self._changed:
                self._done, self._trouble = number, trouble
                self._changed.notify_all()

    def _try(self, requests: Collection[str]) -> str:
        try:
            self._work(self._key, requests)
        except (TarmacError, Broken, OSError) as error:
            log.info("artifacts at cluster %s: %s", self._key, error)
            return str(error)
        except Exception as error:  # a bug or damaged data must not end the thread
            if not self._ending.is_set():  # otherwise the database is closed already
                log.exception("artifacts at cluster %s", self._key)
            return f"{type(error).__name__}: {error}"
        return ""
