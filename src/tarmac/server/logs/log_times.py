"""The write times of a log's bytes, from the time index beside it (`node/files/logroom.py`).

Used by `log_files`, which reads logs up to the offsets in the index.
"""

from bisect import bisect_right
from collections.abc import Callable

Read = Callable[[str, int, int], bytes]
"""path, offset, limit -> bytes; b"" at the end, and if there is no such file (yet)."""

BLOCK_BYTES = 65536
MOST_ENTRIES = 1_000_000
"""Maximum entries in memory: one a second for eleven days. A worker can also write to the index."""


class LogTimes:
    """The times of one log; reads the index only as far as needed.

    `now` is the time of bytes without an entry; None: a reader waits for the entry.
    """

    def __init__(self, read: Read, log: str, *, now: Callable[[], float | None]) -> None:
        self._read = read
        self._path = f"{log.removesuffix('.log')}.idx"
        self._now = now
        self._offset = 0
        self._rest = b""
        self._ends: list[int] = []
        self._seconds: list[float] = []

    def of(self, offset: int) -> tuple[float | None, int | None]:
        """The latest write time of the byte at `offset`, and the end of that time's range (None: the end)."""
        at = bisect_right(self._ends, offset)
        if at == len(self._ends):
            self._read_on()
            at = bisect_right(self._ends, offset)
        if at == len(self._ends):
            return self._now(), None
        return self._seconds[at], self._ends[at]

    def _read_on(self) -> None:
        while len(self._ends) < MOST_ENTRIES:
            block = self._read(self._path, self._offset, BLOCK_BYTES)
            if not block:
                return
            self._offset += len(block)
            *lines, rest = (self._rest + block).split(b"\n")
            self._rest = rest[-BLOCK_BYTES:]
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        seconds, _, end = line.partition(b" ")
        try:
            entry = float(seconds), int(end[:15])
        except ValueError:
            return
        if entry[1] > (self._ends[-1] if self._ends else 0) and 0.0 <= entry[0] < float("inf"):
            self._seconds.append(entry[0])
            self._ends.append(entry[1])
