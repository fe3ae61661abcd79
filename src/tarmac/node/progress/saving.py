"""Detects whether processes still save something. Called by the hook `grace`.

A process that hangs in a collective operation may compute at full speed, but writes almost nothing. A process
that saves writes, or reads data from a disk to send it elsewhere.
"""

from __future__ import annotations

from typing import Iterable, Optional

from tarmac.node.kernel import consumption
from tarmac.node.kernel.consumption import Transfer
from tarmac.node.kernel.procfs import Process

LEAST_WRITTEN_BYTES = 1 << 20
LEAST_READ_BYTES = 64 << 20
"""Fewer bytes are lines of a log, or the reads of a thread that monitors the machine."""


class Saving:
    """The transfers of processes between two calls."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self._known = consumption.transfers(processes)

    def goes_on(self, processes: Iterable[Process]) -> bool:
        """Whether they have saved something since the last call."""
        before, self._known = self._known, consumption.transfers(processes)
        fresh = [_since(before.get(process), now) for process, now in self._known.items()]
        written_bytes = sum(each.written_bytes for each in fresh)
        read_bytes = sum(each.read_bytes for each in fresh)
        return written_bytes >= LEAST_WRITTEN_BYTES or read_bytes >= LEAST_READ_BYTES


def _since(before: Optional[Transfer], now: Transfer) -> Transfer:
    if before is None:
        return now
    return Transfer(now.read_bytes - before.read_bytes, now.written_bytes - before.written_bytes)
