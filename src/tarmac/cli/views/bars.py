"""Progress bars on stderr for long work: the amount done, and its rate.

Shown on a terminal only, and erased at the end. Used by `simulate`, `artifacts get` and `dialogue` (uploads).
"""

import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

from tarmac.cli.views.amounts import duration, size
from tarmac.cli.views.terminal import Terminal, fit, terminal_of

BAR_COLUMNS = 24
QUIET_S = 0.7
"""Delay before the first drawing: most plays end before it."""
PERIOD_S = 0.1


class Bar:
    """A bar that redraws itself on one line. `now` is the clock.

    `amount` writes what is done of all, `rate` the amount per second.
    """

    amount: Callable[[int, int], str]
    rate: Callable[[float], str]

    def __init__(
        self, stream: TextIO, terminal: Terminal | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._terminal = terminal
        self._now = now
        self._done = 0
        self._began_at: float | None = None
        self._drawn_at: float | None = None

    @classmethod
    def on_stderr(cls, *, quiet: bool = False) -> Self:
        """A bar on stderr; with `quiet` it draws nothing."""
        return cls(sys.stderr, Terminal() if quiet else None)

    def show(self, done: int, of: int) -> None:
        """Show that `done` of `of` are done; the first call begins, the last one erases the bar."""
        if self._terminal is None:
            self._terminal = terminal_of(self._stream)
        now = self._now()
        if self._began_at is None:
            self._began_at = now
        if done >= of:
            self.close()
        elif self._terminal.width and now - (self._drawn_at or self._began_at + QUIET_S) >= PERIOD_S:
            self._drawn_at = now
            self._write(fit(self._line(done, of, now - self._began_at), self._terminal.width - 1))

    def add(self, more: int, of: int) -> None:
        """Show that `more` of `of` are done in addition."""
        self._done += more
        self.show(self._done, of)

    def close(self) -> None:
        """Erase an unfinished line; the bar may be shown again."""
        if self._drawn_at is not None:
            self._write("")
        self._began_at = self._drawn_at = None

    def _line(self, done: int, of: int, took_s: float) -> str:
        share = done / max(1, of)
        filled = round(share * BAR_COLUMNS)
        rate = done / took_s
        left = f", {duration((of - done) / rate)} left" if rate else ""
        bar = "█" * filled + "░" * (BAR_COLUMNS - filled)
        return f"{bar} {self.amount(done, of)}, {share:.0%}, {self.rate(rate)}/s{left}"

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()


class PlayBar(Bar):
    """The jobs of a simulation that have ended."""

    amount = staticmethod(lambda done, of: f"{done:,}/{of:,} jobs")
    rate = staticmethod("{:,.0f}".format)


class BytesBar(Bar):
    """Bytes that have arrived."""

    amount = staticmethod(lambda done, of: f"{size(done)} of {size(of)}")
    rate = staticmethod(size)
