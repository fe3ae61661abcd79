"""Passes news from the control plane's threads to the event loop, so that streams need not poll.

`ControlPlane.subscribe` gets `tell`; each event stream opens a `Watch` on its run and awaits it. Streams use
few threads for reads, and read less often if there are more of them: requests and runs have priority.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

READING_THREADS = 4
EVERY_RUN = ""
"""Instead of the id of a run: a watch on all changes."""

P = ParamSpec("P")
T = TypeVar("T")


class Watch:
    """An awaitable counter of the changes of one run. Belongs to the event loop."""

    def __init__(self) -> None:
        self.version = 0
        self._waiter: asyncio.Future[None] | None = None

    async def after(self, version: int, timeout_s: float) -> bool:
        """Wait for more than `version` changes, at most `timeout_s`; returns whether they happened."""
        if self.version == version:
            self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._waiter,), timeout=timeout_s)
            self._waiter = None
        return self.version > version

    def wake(self) -> None:
        """Count a change of the run, or the stop of the server."""
        self.version += 1
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Changes:
    """The watches on each run. Any thread may call `tell`; all other methods belong to the event loop."""

    def __init__(self) -> None:
        self.stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watches: dict[str, set[Watch]] = {}
        self._paths: dict[str, int] = {}
        self._last = 0
        self._pending: set[str] = set()
        self._lock = threading.Lock()
        self._readers = CapacityLimiter(READING_THREADS)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop of the streams."""
        self._loop = loop

    @contextmanager
    def watch(self, run_id: str) -> Iterator[Watch]:
        """Watch a run for the duration of the block."""
        watch = Watch()
        watches = self._watches.setdefault(run_id, set())
        watches.add(watch)
        try:
            yield watch
        finally:
            watches.discard(watch)
            if not watches:
                self._watches.pop(run_id, None)

    async def read(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads for a stream, in a thread reserved for these."""
        return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=self._readers)

    def spread_s(self, least_s: float, each_s: float) -> float:
        """The pause of a stream: `each_s` for every open stream, and at least `least_s`."""
        return max(least_s, each_s * sum(map(len, self._watches.values())))

    def paths_after(self, number: int) -> tuple[int, list[str]]:
        """The number of the last change with a path, and the paths of the changes after `number`."""
        with self._lock:
            return self._last, [path for path, at in self._paths.items() if at > number]

    def tell(self, changed: Collection[str]) -> None:
        """Announce changes: of runs by their ids, of other things by the first part of their path (`/nodes`).

        Cheap without watches; many changes wake each watch only once.
        """
        for path in changed:
            if path[0] == "/":
                with self._lock:
                    self._last += 1
                    self._paths[path] = self._last
        watched = [run_id for run_id in (EVERY_RUN, *changed) if run_id in self._watches]
        if not watched or self._loop is None or self._loop.is_closed():
            return
        with self._lock:
            scheduled = bool(self._pending)
            self._pending.update(watched)
        if not scheduled:
            self._loop.call_soon_threadsafe(self._wake_pending)

    def stop(self) -> None:
        """End every stream: the server is stopping."""
        self.stopping = True
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()

    def _wake_pending(self) -> None:
        with self._lock:
            run_ids, self._pending = self._pending, set()
        for run_id in run_ids:
            for watch in self._watches.get(run_id, ()):
                watch.wake()
