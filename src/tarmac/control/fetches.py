"""Fetches the repositories of runs, each in its own thread, so that slow ones delay no others.

Made by `loops`, used by the stage pass. Nothing here is durable: a run whose fetch is lost is still pending,
and the next pass fetches its repository again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from tarmac.model.errors import TarmacError
from tarmac.model.ports import FetchesCode, StagedCode
from tarmac.model.run import Run
from tarmac.model.secret import deploy_key
from tarmac.model.spec import Repository

MOST_AT_ONCE = 16
"""The number of repositories fetched at the same time; the same one is never fetched twice at once."""

Outcome = StagedCode | TarmacError


class Fetches:
    """Starts fetches and stores their outcomes until they are taken. Used by one thread, the stage loop."""

    def __init__(self, store: FetchesCode, *, ready: Callable[[], None]) -> None:
        self._store = store
        self._ready = ready
        self._lock = threading.Lock()
        self._run_ids: frozenset[str] = frozenset()
        self._under_way: dict[str, str] = {}
        self._done: dict[str, Outcome] = {}
        self._threads: set[threading.Thread] = set()

    def want(self, run_ids: Collection[str]) -> None:
        """Cancel every fetch except those of these runs, which still wait for their code."""
        with self._lock:
            self._run_ids = frozenset(run_ids)
            self._done = {run_id: done for run_id, done in self._done.items() if run_id in self._run_ids}

    def outcome(self, run: Run, code: Repository) -> Outcome | None:
        """The outcome of the fetch for this run, returned once; None while it runs or waits."""
        run_id = run.id
        with self._lock:
            if run_id in self._done:
                return self._done.pop(run_id)
            busy = self._under_way
            if run_id in busy or code.url in busy.values() or len(busy) >= MOST_AT_ONCE:
                return None
            busy[run_id] = code.url
            thread = threading.Thread(
                target=self._fetch, args=(run, code), name=f"tarmac-fetch-{run_id}", daemon=True
            )
            self._threads.add(thread)
        thread.start()
        return None

    def close(self) -> None:
        """Cancel all running fetches and wait for their end."""
        self.want(())
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _fetch(self, run: Run, code: Repository) -> None:
        run_id = run.id
        outcome: Outcome | None = None
        try:
            outcome = self._store.fetch(
                code, lambda: run_id in self._run_ids, secret=deploy_key(run.spec.secrets)
            )
        except TarmacError as problem:
            outcome = problem
        finally:
            with self._lock:
                del self._under_way[run_id]
                self._threads.discard(threading.current_thread())
                if outcome is not None and run_id in self._run_ids:
                    self._done[run_id] = outcome
            self._ready()
