"""Writes log chunks to a terminal: raw for one worker, prefixed lines for several. Used by `logs` and `run`.

With a prefix only complete lines are written, so that workers never mix within one; a line that redraws
itself with carriage returns (a progress bar) keeps its last form, as on a terminal. On a terminal, other
control sequences are shown instead of executed (`escapes`).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import localtime, strftime
from typing import TextIO

from tarmac import api
from tarmac.cli.views import escapes
from tarmac.cli.views.terminal import Terminal
from tarmac.model.errors import InvalidInput

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue")

SEARCH_LIMIT_S = 1.0
"""Processor time for a pattern and the lines of one chunk: `(a+)+$` may take years for thirty characters."""

LONGEST_LINE = 1 << 20
"""Maximum length in characters of an unfinished line that is held back."""

_COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*m")

WorkerKey = tuple[str, int, int]
"""The role, replica and number of a worker."""

Prefix = Callable[["api.LogChunk"], str | None]
"""Returns the prefix of each line of a chunk; None: this view's own prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRule:
    """The lines to show, by default all, and whether each begins with its time.

    With `rank`, of a log that several ranks write, only the lines that begin with the number of that rank.
    """

    pattern: re.Pattern[str] | None = None
    timestamps: bool = False
    rank: int | None = None

    def shows(self, line: str, *, of_one_rank: bool) -> bool:
        """Whether a line is shown; `of_one_rank`: only one rank writes its log."""
        if self.rank is not None and not of_one_rank and not line.lstrip().startswith(f"[rank={self.rank}]"):
            return False
        return self.pattern is None or self.pattern.search(line) is not None


@contextmanager
def _limited(rule: LineRule | None) -> Iterator[None]:
    """Raise InvalidInput if a pattern takes longer than `SEARCH_LIMIT_S`. In the main thread only."""
    if rule is None or rule.pattern is None:
        yield
        return
    error = InvalidInput(
        f"the pattern {rule.pattern.pattern!r} takes more than {SEARCH_LIMIT_S:g} s for a piece of the log",
        hint="repeat nothing that is repeated itself, as in (a+)+; or print the log and use grep -E",
    )

    def give_up(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, SEARCH_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class LogView:
    """Writes chunks to `out`. `workers` (of docs/using/api.md's Attempt) decide whether there are prefixes.

    `foreign` overrides them; with `raw` a terminal gets the same as a file. With a `rule` only complete lines
    are written.

    With `at_line_start` a remark on stderr cuts no line; another writer that ends the open line sets it.
    """

    def __init__(
        self,
        out: TextIO,
        terminal: Terminal,
        foreign: Prefix | None = None,
        *,
        raw: bool = False,
        rule: LineRule | None = None,
    ) -> None:
        self._rule = rule
        self._of_one_rank = False
        self._at: float | None = None
        self._out = out
        self._terminal = terminal
        self._foreign = foreign
        self._obeys = terminal.width is not None and not raw
        self._unfinished = ""
        self._attempt: object = None
        self._prefixes: dict[WorkerKey, str] = {}
        self._partial: dict[WorkerKey, str] = {}
        self.at_line_start = True

    @property
    def mixed(self) -> bool:
        """Whether prefixes have distinguished lines of several workers."""
        return bool(self._prefixes)

    def expect(self, workers: Iterable[WorkerKey]) -> None:
        """Expect output of these workers; more than one of them means prefixes."""
        keys = set(workers)
        if keys <= self._prefixes.keys() or (len(keys) == 1 and not self._prefixes):
            return
        if not self._prefixes and not self.at_line_start:
            self._out.write("\n")
            self.at_line_start = True
        self._prefixes = self._labels(sorted({*self._prefixes, *keys}))

    def write(self, chunk: api.LogChunk) -> None:
        """Show one LogChunk at once."""
        text, key = chunk.text, (chunk.role, chunk.replica, chunk.worker)
        if not text:
            return
        if chunk.attempt != self._attempt:
            self.finish()  # the next attempt does not continue an open line
            self._attempt = chunk.attempt
        foreign = self._foreign(chunk) if self._foreign is not None else None
        if foreign is not None:
            self._prefixes[key] = foreign
        self._at = chunk.at
        self._of_one_rank = chunk.rank is not None
        if self._prefixes or self._rule is not None:
            self._write_lines(key, text)
        else:
            shown = self._drawn(text)
            self._out.write(shown)
            self.at_line_start = shown.endswith("\n") if shown else self.at_line_start
        self._out.flush()

    def finish(self) -> None:
        """End the output: show the unfinished lines."""
        for key in sorted(self._partial):
            if self._partial[key]:
                self._lines(key, [self._partial[key]])
        self._partial.clear()
        if self._unfinished:
            self._out.write(escapes.with_moves(self._unfinished))
            self._unfinished = ""
        self._out.flush()

    def _write_lines(self, key: WorkerKey, text: str) -> None:
        *lines, rest = (self._partial.pop(key, "") + text).split("\n")
        if len(rest) > LONGEST_LINE:
            lines, rest = [*lines, rest], ""
        self._lines(key, lines)
        self._partial[key] = rest

    def _lines(self, key: WorkerKey, lines: Iterable[str]) -> None:
        with _limited(self._rule):
            for line in lines:
                self._line(key, line)

    def _drawn(self, text: str) -> str:
        """The output of a single worker in its form for a terminal."""
        if not self._obeys:
            return text
        whole, self._unfinished = escapes.split_unfinished(self._unfinished + text)
        return escapes.with_moves(whole)

    def _line(self, key: WorkerKey, line: str) -> None:
        visible = line.removesuffix("\r").rsplit("\r", 1)[-1]
        if self._rule is not None and not self._rule.shows(
            _COLOUR_CODES.sub("", visible), of_one_rank=self._of_one_rank
        ):
            return
        if self._obeys:
            visible = escapes.lines_only(visible)
            visible += "\x1b[0m" if "\x1b" in visible else ""
        self._out.write(f"{self._time()}{self._prefix(key)}{visible}\n")
        self.at_line_start = True

    def _time(self) -> str:
        if self._rule is None or not self._rule.timestamps:
            return ""
        stamp = strftime("%Y-%m-%d %H:%M:%S", localtime(self._at)) if self._at is not None else "?"
        return self._terminal.paint(f"{stamp} ", "dim")

    def _prefix(self, key: WorkerKey) -> str:
        if not self._prefixes and self._rule is not None:
            return ""  # lines of a single worker
        if key not in self._prefixes:
            self._prefixes = self._labels(sorted({*self._prefixes, key}))
        return self._prefixes[key]

    def _labels(self, keys: Sequence[WorkerKey]) -> dict[WorkerKey, str]:
        """A prefix per worker, equally wide; without the worker's number if each replica has one worker."""
        short = all(worker == 0 for _role, _replica, worker in keys)
        names = {key: ".".join(str(part) for part in (key[:2] if short else key)) for key in keys}
        width = max(map(len, names.values()))
        return {
            key: self._terminal.paint(f"{names[key].ljust(width)}| ", _COLOURS[at % len(_COLOURS)])
            for at, key in enumerate(keys)
        }
