"""News from the control plane's threads to the event loop: streams wait here instead of polling.

`ControlPlane.subscribe` gets `tell`; the event streams await `after`.
"""

from __future__ import annotations

import asyncio


class Changes:
    """A counter of changes that can be awaited. `tell` may be called from any thread."""

    def __init__(self) -> None:
        self.version = 0
        self.stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._scheduled = False

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop whose streams are to be woken."""
        self._loop = loop

    def tell(self) -> None:
        """Something changed. Cheap when nobody waits, and a storm of calls wakes everyone once."""
        self.version += 1
        if self._waiters and not self._scheduled and self._loop is not None and not self._loop.is_closed():
            self._scheduled = True
            self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """End every stream: the server is leaving. Called in the loop."""
        self.stopping = True
        self._wake()

    async def after(self, version: int, timeout_s: float) -> bool:
        """Wait until more than `version` changes have been told, at most `timeout_s`; whether they have."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)  # before looking: a change told meanwhile sees the waiter
        try:
            if self.version > version or self.stopping:
                return True
            await asyncio.wait((waiter,), timeout=timeout_s)
            return self.version > version
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        self._scheduled = False
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
