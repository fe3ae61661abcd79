"""A bar on stderr for simulations that take a while: jobs ended of all, and how many a second.

On a terminal only; it is gone when the play is over. Used by `tarmac simulate`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from tarmac.cli.amounts import duration
from tarmac.cli.terminal import Terminal, fit, terminal_of

BAR_COLUMNS = 24
QUIET_S = 0.7
"""Nothing is drawn before: most plays are over by then."""
PERIOD_S = 0.1


class PlayBar:
    """Draws itself over and over on one line. `now` is the clock."""

    def __init__(
        self, stream: TextIO, terminal: Terminal, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._terminal = terminal
        self._now = now
        self._began_at = now()
        self._drawn_at: float | None = None

    @classmethod
    def on_stderr(cls, *, quiet: bool) -> Self:
        """One on stderr; `quiet` ones draw nothing."""
        return cls(sys.stderr, Terminal() if quiet else terminal_of(sys.stderr))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn_at is not None:
            self._write("")

    def show(self, ended: int, of: int) -> None:
        """So many jobs of so many have ended."""
        now = self._now()
        if self._terminal.width is None or now - (self._drawn_at or self._began_at + QUIET_S) < PERIOD_S:
            return
        self._drawn_at = now
        self._write(fit(self._line(ended, of, now - self._began_at), self._terminal.width - 1))

    def _line(self, ended: int, of: int, took_s: float) -> str:
        share = ended / max(1, of)
        filled = round(share * BAR_COLUMNS)
        rate = ended / took_s
        left = f", {duration((of - ended) / rate)} left" if rate else ""
        bar = "█" * filled + "░" * (BAR_COLUMNS - filled)
        return f"{bar} {ended:,}/{of:,} jobs, {share:.0%}, {rate:,.0f}/s{left}"

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
