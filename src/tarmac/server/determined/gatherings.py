"""Peers of a task that wait until each has said something. Used by `allocations_api`."""

from __future__ import annotations

import asyncio
from typing import Any

MOST = 1000
"""So many gatherings are remembered; the oldest goes first."""

LONGEST_S = 600.0

Key = tuple[str, str]


class _Gathering:
    def __init__(self) -> None:
        self.contents: dict[str, Any] = {}
        self.complete = asyncio.Event()


class Gatherings:
    """Those of all attempts, in memory of the event loop: peers ask again after a restart."""

    def __init__(self) -> None:
        self._open: dict[Key, _Gathering] = {}

    async def gather(self, key: Key, who: str, content: Any, *, peers: int) -> list[Any]:
        """What all peers said, in the order of their names. Raises TimeoutError when some do not come."""
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
