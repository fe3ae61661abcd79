"""Peers of a task that wait until each of them has sent its data. Used by `routes.allocations`."""

from __future__ import annotations

import asyncio
from typing import Any

MOST = 1000
"""Maximum number of gatherings in memory; the oldest is dropped first."""

LONGEST_S = 600.0

Key = tuple[str, str]


class _Gathering:
    def __init__(self) -> None:
        self.contents: dict[str, Any] = {}
        self.complete = asyncio.Event()


class Gatherings:
    """The gatherings of all attempts, in memory of the event loop: after a restart, peers ask again."""

    def __init__(self) -> None:
        self._open: dict[Key, _Gathering] = {}

    async def gather(self, key: Key, who: str, content: Any, *, peers: int) -> list[Any]:
        """The data of all peers, by name. Raises TimeoutError if some peers do not send theirs."""
        found = self._open.get(key)
        if found is None or (found.complete.is_set() and who not in found.contents):
            while len(self._open) >= MOST:
                self._open.pop(next(iter(self._open)))
            found = self._open[key] = _Gathering()
        found.contents[who] = content
        if len(found.contents) >= peers:
            found.complete.set()
        await asyncio.wait_for(found.complete.wait(), LONGEST_S)
        return [found.contents[name] for name in sorted(found.contents)]
