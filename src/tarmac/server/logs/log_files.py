"""Reads the files of an attempt for a follower: a worker's log from an offset on.

All reads use `ControlPlane.read`, which works for every engine.
"""

import codecs
from collections.abc import Callable
from typing import Any

from tarmac.api.history_operations import LogChunk, LogSource
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.codec import inherited
from tarmac.model.errors import NotFound
from tarmac.node.files import untrusted
from tarmac.node.files.logroom import cut_note, gap_of
from tarmac.node.files.masking import Mask, split_at
from tarmac.server.logs.log_times import BLOCK_BYTES, LogTimes, Read

LONGEST_BYTES = 16 << 20
"""Maximum bytes of one read; of a longer file, the end is read."""


class LogFile:
    """One worker's log, read from its beginning, or from the offset set by `seek`.

    `mask` hides the secrets of its run; with `times`, each
    chunk has a single time. `next` is the offset up to which the log was shown: bytes that may begin a secret
    (or a character) are held back.
    """

    def __init__(
        self,
        read: Read,
        path: str,
        *,
        source: LogSource,
        mask: Callable[[], Mask],
        times: LogTimes | None = None,
    ) -> None:
        self._times = times
        self._at: float | None = None
        self.source = source
        self.next = 0
        self._read = read
        self._path = path
        self._mask = mask
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._window = b""
        self._window_at = 0
        self._shown_to = 0
        self._whole = True

    def seek(self, offset: int) -> None:
        """Begin at `offset`."""
        self.next = self._shown_to = self._window_at = offset
        self._window, self._whole = b"", offset == 0

    def chunk(self) -> LogChunk | None:
        """The next block of new text; None if there is none."""
        while (limit := self._limit_bytes()) and (data := self._read(self._path, self._read_to, limit)):
            if b"\0" in data and (gap := gap_of(parsed(self._read(cut_note(self._path), 0, BLOCK_BYTES)))):
                begin, end = gap  # in a log that exceeded its limit (`node/files/logroom.py`)
                if begin <= self._read_to < end:
                    return self._chunk(b"", final=True) or self._left_out(end)
                if self._read_to < begin:
                    data = data[: begin - self._read_to]
            if (chunk := self._chunk(data, final=False)) is not None:
                return chunk
        return None

    def _limit_bytes(self) -> int:
        """The size of the next read: if times are requested, it ends with the bytes that have a time."""
        if self._times is None:
            return BLOCK_BYTES
        self._at, end = self._times.of(self._read_to)
        if self._at is None:
            return 0
        return BLOCK_BYTES if end is None else min(BLOCK_BYTES, end - self._read_to)

    @property
    def _read_to(self) -> int:
        return self._window_at + len(self._window)

    def rest(self) -> LogChunk | None:
        """The bytes held back, once the log is complete."""
        return self._chunk(b"", final=True)

    def _left_out(self, end: int) -> LogChunk:
        """A note in place of the gap."""
        missing, start = end - self._read_to, self.next
        self.seek(end)
        self._decoder.reset()
        text = f"\n[tarmac: {missing:,} bytes of this log are left out: it was too long]\n"
        return self._shown(start, text)

    def _chunk(self, data: bytes, *, final: bool) -> LogChunk | None:
        mask = self._mask()
        if not self._whole:
            self._look_back(mask.context_bytes)
        self._window += data
        shown, cut = split_at(self._window, mask, self._shown_to - self._window_at, final=final)
        text = self._decoder.decode(shown, final)
        self._shown_to = self._window_at + cut
        start, self.next = self.next, self._shown_to - len(self._decoder.getstate()[0])
        forgotten = max(0, cut - mask.context_bytes)
        self._window, self._window_at = self._window[forgotten:], self._window_at + forgotten
        if not text:
            return None
        return self._shown(start, text)

    def _shown(self, offset: int, text: str) -> LogChunk:
        source = inherited(LogSource, self.source)
        return LogChunk(**source, offset=offset, next=self.next, text=text, at=self._at)

    def _look_back(self, context_bytes: int) -> None:
        """Read the bytes before the first offset: a secret may begin there."""
        begin = max(0, self._window_at - context_bytes)
        before = b""
        while begin + len(before) < self._window_at:
            piece = self._read(self._path, begin + len(before), self._window_at - begin - len(before))
            if not piece:
                break  # shorter than the offset: nothing is shown before the file has grown
            before += piece
        if begin + len(before) == self._window_at:
            self._window, self._window_at = before + self._window, begin
        self._whole = True


def reader(plane: ControlPlane, actor: Actor, attempt_id: str) -> Read:
    """A function that reads files of an attempt; missing files are empty."""

    def read(path: str, offset: int, limit: int) -> bytes:
        try:
            return plane.read(actor, attempt_id, path, offset, limit)
        except NotFound:
            return b""

    return read


def tail_start(read: Read, path: str, lines: int) -> tuple[int, int]:
    """The offset of the last `lines` lines of a file, and the number of lines found."""
    end, found = length_bytes(read, path), 0
    if end == 0 or lines <= 0:
        return end, 0
    stop = end - 1 if read(path, end - 1, 1) == b"\n" else end
    least = max(0, stop - LONGEST_BYTES)
    while stop > least:
        begin = max(least, stop - BLOCK_BYTES)
        block = read(path, begin, stop - begin)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            found += 1
            if found == lines:
                return begin + at + 1, found
        stop = begin
    return least, found + 1


def since_offset(read: Read, path: str, at: float) -> int:
    """The length of a log at a time, by the time index beside it; slightly less, never more."""
    offset = 0
    for line in last_part(read, f"{path.removesuffix('.log')}.idx")[0].split(b"\n"):
        seconds, _, length = line.partition(b" ")
        try:
            later = float(seconds) > at
            if later:
                break
            offset = int(length[:15])
        except ValueError:
            continue  # a worker can also write to this file
    return max(0, offset)


def last_part(read: Read, path: str, limit_bytes: int = LONGEST_BYTES) -> tuple[bytes, bool]:
    """The end of a file, beginning with a whole line, and whether this is the whole file."""
    length = length_bytes(read, path)
    begin = offset = max(0, length - limit_bytes)
    blocks: list[bytes] = []
    while offset < length and (block := read(path, offset, min(BLOCK_BYTES, length - offset))):
        blocks.append(block)
        offset += len(block)
    found = b"".join(blocks)
    return (found, True) if begin == 0 else (found.partition(b"\n")[2], False)


def parsed(line: bytes) -> dict[str, Any]:
    """A line of a JSON lines file; empty for a broken one (its writer died while writing)."""
    try:
        return untrusted.parse_object(line) if line else {}
    except ValueError:
        return {}


def length_bytes(read: Read, path: str, least: int = 0) -> int:
    """The length of a file, `least` or more, found by reads alone: doubling, then halving."""
    low = high = least
    while read(path, high, 1):
        low, high = high + 1, max(BLOCK_BYTES, high * 2)
    while low < high:
        middle = (low + high) // 2
        if read(path, middle, 1):
            low = middle + 1
        else:
            high = middle
    return low
