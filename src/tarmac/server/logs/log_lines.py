"""Windows of the lines of one log: before, after or around a byte; all lines, or only those that match.

Called by the routes about logs. A request reads for a bounded time: a client that filters asks again from
where the window ended. All reads use `ControlPlane.read`, which works for every engine.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from tarmac import api
from tarmac.api.history_operations import LogChoice, LogLinesQuery
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.codec import inherited
from tarmac.model.errors import NotFound
from tarmac.model.lifecycle import AttemptState
from tarmac.model.run import Attempt, Run
from tarmac.node.files.logroom import cut_note, gap_of
from tarmac.node.files.masking import Mask, pieces
from tarmac.server.logs.log_files import LogFile, length_bytes, parsed, reader
from tarmac.server.logs.log_times import BLOCK_BYTES, LogTimes, Read
from tarmac.server.logs.log_view import SETUP_ROLE, check_choice, logs_of, sets_up


class WindowLimits(NamedTuple):
    """The work of one answer. `region_bytes` is one step; a window without a filter is no larger.

    After `search_s` a search answers with the lines found so far.
    """

    region_bytes: int = 256 * 1024
    search_s: float = 0.1


USUAL = WindowLimits()

CONTEXT_BYTES = 20_480
"""The bytes around a window in which a secret may begin or end: a private key of several lines."""

LONGEST_LINE = 8192
"""Characters of a line in an answer; the text of a log has all of them."""

_ERROR_WORDS = (
    *(b"error", b"exception", b"traceback", b"fatal", b"critical", b"panic", b"killed", b"fault"),
    *(b"out of memory", b"core dumped"),
)
_ERROR = re.compile(
    rb"\b(?:ERROR|FATAL|CRITICAL|PANIC|[Ff]atal|[Kk]illed|[Pp]anic:|error:|Error:)"
    rb"|\w(?:Error|Exception)\b|\bTraceback \(|Segmentation fault|core dumped|[Oo]ut of memory"
)
_ESCAPE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")

Bounds = list[tuple[int, int]]
"""The first byte of each line, and the first after it, relative to a region."""


class LogLines:
    """The lines of one worker's log. `complete`: it has ended. `mask` hides the secrets of its run."""

    def __init__(
        self,
        read: Read,
        path: str,
        *,
        mask: Mask,
        complete: bool,
        times: LogTimes | None,
        limits: WindowLimits,
    ) -> None:
        self._read, self._path, self._mask = read, path, mask
        self._complete, self._times, self._limits = complete, times, limits
        self._gap = gap_of(parsed(read(cut_note(path), 0, BLOCK_BYTES))) or (-1, -1)

    def window(self, source: api.LogSource, query: LogLinesQuery) -> api.LogWindow:
        """The lines that the query selects."""
        length = length_bytes(self._read, self._path, query.after or 0)
        forward = query.after is not None or query.at is not None
        place = self._line_start(min(query.at, length)) if query.at is not None else query.after
        if place is None:
            place = length if query.before is None else min(query.before, length)
        start = end = place
        text, lines, due = (
            query.text.encode().lower(),
            list[api.LogLine](),
            monotonic() + self._limits.search_s,
        )
        while (end < length if forward else start > 0) and len(lines) < query.lines:
            region = self._after(end, length) if forward else self._before(start)
            bounds = region.bounds(text, errors=query.errors)
            left = query.lines - len(lines)
            kept = bounds[:left] if forward else bounds[-left:]
            found, stop = self._lines(region, kept, length)
            matches = [line for line, raw in found if _matches(raw, text, errors=query.errors)]
            if forward:
                lines += matches
                end = min(stop, region.start + kept[-1][1] if len(kept) < len(bounds) else region.stop)
            else:
                lines = matches + lines
                end = stop if start == place else end
                start = region.start + kept[0][0] if len(kept) < len(bounds) else region.start
            enough = not text and not query.errors and len(lines) >= query.lines // 2
            if enough or monotonic() > due or (forward and stop < region.stop):
                break
        return api.LogWindow(
            **inherited(api.LogSource, source), lines=lines, start=start, next=end, length=length
        )

    def _before(self, stop: int) -> "_Region":
        """The lines that end at `stop`; all of the gap if `stop` is in it."""
        begin, end = self._gap
        if begin < stop <= end:
            return _Region(begin, stop, b"")
        start = max(stop - self._limits.region_bytes, end if end < stop else 0, 0)
        data = self._bytes(start, stop)
        first = data.find(b"\n", 0, -1) + 1 if start not in (0, end) else 0
        return _Region(start + first, stop, data[first:])

    def _after(self, start: int, length: int) -> "_Region":
        """The lines from `start` on; the rest of the gap if `start` is in it."""
        begin, end = self._gap
        if begin <= start < end:
            return _Region(start, end, b"")
        stop = min(start + self._limits.region_bytes, begin if start < begin else length, length)
        data = self._bytes(start, stop)
        if stop not in (begin, length):
            data = data[: data.rfind(b"\n") + 1] or data
        return _Region(start, start + len(data) if data else length, data)

    def _line_start(self, at: int) -> int:
        """The beginning of the line with byte `at`."""
        before = self._bytes(max(0, at - BLOCK_BYTES), at)
        return at - len(before) + before.rfind(b"\n") + 1

    def _lines(
        self, region: "_Region", bounds: Bounds, length: int
    ) -> tuple[list[tuple[api.LogLine, bytes]], int]:
        """Lines of a region as they are shown, and the end of what can be shown for good."""
        if region.is_gap:
            text = f"[tarmac: {region.stop - region.start:,} bytes of this log are left out: it was too long]"
            return [(api.LogLine(offset=region.start, text=text, at=None), text.encode())], region.stop
        settled = region.stop
        if region.stop >= length and not self._complete and not region.data.endswith(b"\n"):
            settled = region.start + region.data.rfind(b"\n") + 1
        if not bounds:
            return [], settled
        first, last = bounds[0][0], bounds[-1][1]
        before = self._bytes(max(0, region.start + first - CONTEXT_BYTES), region.start + first)
        after = self._bytes(region.start + last, min(length, region.start + last + CONTEXT_BYTES))
        data = before + region.data[first:last] + after
        base = region.start + first - len(before)
        at_end = base + len(data) >= length
        spans = self._mask.spans_at_end(data) if at_end and self._complete else self._mask.spans(data)
        cut = self._mask.cut(data, spans) if at_end and not self._complete else len(data)
        found: list[tuple[api.LogLine, bytes]] = []
        for start, stop in bounds:
            begin, end = region.start + start - base, region.start + stop - base
            shown = b"".join(pieces(data, spans, begin, min(end, cut))).rstrip(b"\r\n")
            shown = shown.rpartition(b"\r")[2]
            at = self._times.of(base + begin)[0] if self._times is not None else None
            text = shown.decode("utf-8", "replace")
            if len(text) > LONGEST_LINE:
                text = f"{text[:LONGEST_LINE]} [tarmac: and {len(text) - LONGEST_LINE:,} characters]"
            found.append((api.LogLine(offset=base + begin, text=text, at=at), _ESCAPE.sub(b"", shown)))
            if end > cut:
                return found, base + begin
        return found, settled

    def _bytes(self, start: int, stop: int) -> bytes:
        found = b""
        while start < stop and (block := self._read(self._path, start, min(BLOCK_BYTES, stop - start))):
            found += block
            start += len(block)
        return found


@dataclass(frozen=True, slots=True)
class _Region:
    """Bytes `start` to `stop` of a log, whole lines; without data it is the gap."""

    start: int
    stop: int
    data: bytes

    @property
    def is_gap(self) -> bool:
        return not self.data

    def bounds(self, text: bytes, *, errors: bool) -> Bounds:
        """The lines that may match: they have the text, or a word of an error."""
        if self.is_gap:
            return [(0, self.stop - self.start)]
        if not text and not errors:
            return list(_all(self.data))
        lowered = self.data.lower()
        words = (text,) if text else _ERROR_WORDS
        return sorted({line for word in words for line in _having(lowered, word)})


def _all(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at) + 1 or len(data)
        yield at, stop
        at = stop


def _having(data: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(word)
    while at >= 0:
        stop = data.find(b"\n", at) + 1 or len(data)
        yield data.rfind(b"\n", 0, at) + 1, stop
        at = data.find(word, stop)


def _matches(shown: bytes, text: bytes, *, errors: bool) -> bool:
    """Whether a masked line matches: a search finds no secrets."""
    return text in shown.lower() and (not errors or _ERROR.search(shown) is not None)


class RunLogs:
    """Finds the logs of a run for the routes. `masks` gives the mask of a run."""

    def __init__(
        self, plane: ControlPlane, masks: Callable[[Run], Mask], *, limits: WindowLimits = USUAL
    ) -> None:
        self._plane, self._masks, self._limits = plane, masks, limits

    def window(self, actor: Actor, reference: str, query: LogLinesQuery) -> api.LogWindow:
        """Lines of one log."""
        run, attempt, source, path = self._found(actor, reference, query)
        complete = attempt.state is AttemptState.ENDED
        read = reader(self._plane, actor, attempt.id)
        ended_at = attempt.ended_at

        def now() -> float | None:
            return self._plane.control.clock.now() if ended_at is None else ended_at

        times = LogTimes(read, path, now=now) if query.times else None
        mask, limits = self._masks(run), self._limits
        lines = LogLines(read, path, mask=mask, complete=complete, times=times, limits=limits)
        return lines.window(source, query)

    def text(self, actor: Actor, reference: str, query: LogChoice) -> Iterator[bytes]:
        """All of one log. Raises NotFound before the first piece."""
        run, attempt, source, path = self._found(actor, reference, query)
        mask = self._masks(run)
        log = LogFile(reader(self._plane, actor, attempt.id), path, source=source, mask=lambda: mask)

        def text() -> Iterator[bytes]:
            while chunk := log.chunk():
                yield chunk.text.encode()
            if attempt.state is AttemptState.ENDED and (chunk := log.rest()):
                yield chunk.text.encode()

        return text()

    def _found(
        self, actor: Actor, reference: str, query: LogChoice
    ) -> tuple[Run, Attempt, api.LogSource, str]:
        """The log of the first worker that the query selects: of rank 0, in the newest attempt with any."""
        run = self._plane.find_here(actor, reference)
        attempts = self._plane.attempts(actor, run.id)
        check_choice(query, run, attempts)
        for attempt in reversed(attempts):
            if query.attempt in (None, attempt.number):
                logs = logs_of(self._plane, actor, attempt, setup=sets_up(run.spec))
                chosen = [each for each in logs if query.wants(each[0])]
                if chosen:
                    return run, attempt, *min(chosen, key=lambda each: _order(each[0]))
        raise NotFound(f"{run.name} ({run.id}) has no log yet", hint="a log begins when a worker starts")


def _order(source: api.LogSource) -> tuple[bool, bool, int, int, int]:
    rank = source.rank
    return source.role == SETUP_ROLE, rank is None, rank or 0, source.replica, source.worker
