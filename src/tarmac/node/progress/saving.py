"""Whether processes still save something: asked by the hook `grace`.

A process that hangs in a collective operation may compute at full speed; but it writes next to nothing. One
that saves writes, or reads from a disk what it sends elsewhere.
"""

from __future__ import annotations

from typing import Iterable, Optional

from tarmac.node.kernel import consumption
from tarmac.node.kernel.consumption import Transfer
from tarmac.node.kernel.procfs import Process

LEAST_WRITTEN_BYTES = 1 << 20
LEAST_READ_BYTES = 64 << 20
"""Less than this is lines of a log, or what a thread that watches the machine reads of it."""


class Saving:
    """What processes transferred, from one look to the next."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._known = consumption.transfers(processes)

    def goes_on(self, processes: Iterable[Process]) -> bool:
        """Whether they have saved something since the last look."""
        before, self._known = self._known, consumption.transfers(processes)
        fresh = [_since(before.get(process), now) for process, now in self._known.items()]
        written_bytes = sum(each.written_bytes for each in fresh)
        read_bytes = sum(each.read_bytes for each in fresh)
        return written_bytes >= LEAST_WRITTEN_BYTES or read_bytes >= LEAST_READ_BYTES


def _since(before: Optional[Transfer], now: Transfer) -> Transfer:
    if before is None:
        return now
    return Transfer(now.read_bytes - before.read_bytes, now.written_bytes - before.written_bytes)
