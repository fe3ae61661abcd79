"""The common state of the gateway's routes. Made by `application.build`, and by tests over fakes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tarmac.model.experiment import Experiments
from tarmac.model.numbering import Numbers
from tarmac.model.run_records import RunRecords
from tarmac.server.service import Service
from tarmac.systems.determined.gateway.tokens import TokenMaker

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


VERSION = "0.38.1"
"""The emulated release of Determined: its answers are those of older releases with additional fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The parts of a gateway. `tokens` makes and reads the tokens of sessions; `owner` owns the server.

    `records` stores the trials' own records.
    """

    service: Service
    numbers: Numbers
    records: RunRecords
    tokens: TokenMaker
    owner: str
    url: str
    gatherings: Gatherings = field(default_factory=Gatherings)

    @property
    def experiments(self) -> Experiments:
        """The table of experiments."""
        return self.service.plane.control.store.experiments
