"""Copies artifacts from stores at sites into the store of this server, and removes them at the sites.

A thread checks every site with live attempts, and once more after these have ended. Each site has its own
thread: a site that hangs does not delay others. Requests about a run (`fetch`) are served at once.

The runs of each system user have a store of their own, a site here. That user can write anything there, so
a version counts only if its run is of that user.
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

Site = tuple[str, str | None]
"""A cluster, and the system user of its runs there; None for those of the server's account."""

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
    _workers: dict[Site, _Worker] = field(default_factory=dict, init=False)
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
        site = _site_of(run)
        if site is None or run.id in self._complete or self._files(site) is None:
            return ""
        why = self._worker(site).request(run.id, wait_s=self.answer_s)
        if not why and run.state is RunState.ENDED and len(self._complete) < REMEMBERED:
            self._complete.add(run.id)
        return why and f"what cluster {site[0]} keeps of {run.name} is not all here yet: {why}"

    def fetch_all(self, cluster: str) -> str:
        """Request the artifacts of all runs at the site of a cluster, as `fetch` does for one run."""
        known = [site for site in (*self._workers, (cluster, None)) if site[0] == cluster]
        sites = [site for site in dict.fromkeys(known) if self._files(site) is not None]
        troubles = [self._worker(site).request(EVERYTHING, wait_s=self.answer_s) for site in sites]
        return "; ".join(filter(None, troubles))

    def remove(self, run: Run) -> None:
        """Remove an ended run's artifacts at its site. Raises Unavailable."""
        site = _site_of(run)
        files = self._files(site) if site is not None else None
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
        live: Collection[Site] = ()
        cleared_at = float("-inf")
        while True:
            try:
                known = dict.fromkeys([*((key, None) for key in self.engines()), *self._workers, *live])
                before = tuple(known) if cleared_at < 0 else live
                live = self._live_sites()
                clears = time.monotonic() - cleared_at > CLEAR_EVERY_S
                for site in dict.fromkeys([*known, *live]):
                    if (clears or site in live or site in before) and self._files(site) is not None:
                        self._worker(site).request(EVERYTHING, *([CLEARING] if clears else []))
                cleared_at = time.monotonic() if clears else cleared_at
            except Exception:  # a bug or an unreachable database must not end the thread
                log.exception("artifacts at sites could not be looked after")
            if self._ending.wait(self.look_s):
                return

    def _live_sites(self) -> Collection[Site]:
        engines = self.engines()
        attempts = self.store.live_attempts() if any(engines) else []
        live = sorted({attempt.run_id for attempt in attempts if attempt.allocation.cluster in engines})
        return {site for run in self.store.load_runs(live).values() if (site := _site_of(run)) is not None}

    def _work(self, site: Site, requests: Collection[str]) -> None:
        """Fetch the requested artifacts from a site. Raises Unavailable."""
        files = self._files(site)
        if files is None:
            return
        store = self._open(files)
        if EVERYTHING in requests or CLEARING in requests:
            found = store.unfetched()
        else:
            found = [version for run_id in sorted(requests) for version in store.unfetched(run_id)]
        loaded = self.store.load_runs(sorted({version.run_id for version in found}))
        runs = {run_id: run for run_id, run in loaded.items() if run.spec.user_at_cluster == site[1]}
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

    def _files(self, site: Site) -> StoreFiles | None:
        engine = self.engines().get(site[0])
        return engine.artifact_files(site[1]) if engine is not None else None

    def _open(self, files: StoreFiles) -> SiteStore:
        return SiteStore(files, lambda: self.catalog.blobs, url=self.catalog.url, ending=self._ending)

    def _worker(self, site: Site) -> _Worker:
        return self._workers.setdefault(site, _Worker(site, self._work, self._ending))


def _site_of(run: Run) -> Site | None:
    """The site of a run's artifacts; None for a run that names no cluster."""
    cluster = run.spec.target.cluster
    return (cluster, run.spec.user_at_cluster) if cluster is not None else None


class _Worker:
    """The thread of a site: executes all pending requests, one after the other."""

    def __init__(self, site: Site, work: Callable[[Site, Collection[str]], None], ending: Event) -> None:
        self._site = site
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
                self._thread = Thread(target=self._run, name=f"artifacts-{self._site[0]}", daemon=True)
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
            self._work(self._site, requests)
        except (TarmacError, Broken, OSError) as error:
            log.info("artifacts at cluster %s: %s", self._site[0], error)
            return str(error)
        except Exception as error:  # a bug or damaged data must not end the thread
            if not self._ending.is_set():  # otherwise the database is closed already
                log.exception("artifacts at cluster %s", self._site[0])
            return f"{type(error).__name__}: {error}"
        return ""
