"""Progress bars on stderr for long work: the amount done, and its rate.

Shown on a terminal only, and erased at the end. Used by `simulate`, `artifacts get` and `session` (uploads).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
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
        self, stream: TextIO, terminal: Terminal, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._terminal = terminal
        self._now = now
        self._began_at = now()
        self._drawn_at: float | None = None

    @classmethod
    def on_stderr(cls, *, quiet: bool) -> Self:
        """A bar on stderr; with `quiet` it draws nothing."""
        return cls(sys.stderr, Terminal() if quiet else terminal_of(sys.stderr))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn_at is not None:
            self._write("")

    def show(self, done: int, of: int) -> None:
        """Show that `done` of `of` are done."""
        now = self._now()
        if self._terminal.width is None or now - (self._drawn_at or self._began_at + QUIET_S) < PERIOD_S:
            return
        self._drawn_at = now
        self._write(fit(self._line(done, of, now - self._began_at), self._terminal.width - 1))

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


class UploadBar:
    """Bytes of code sent to a server elsewhere: called with the number sent and the total.

    Most commands send nothing, so the bar is created with the first bytes.
    """

    def __init__(self, make: Callable[[], BytesBar] | None = None) -> None:
        self._make = make or partial(BytesBar.on_stderr, quiet=False)
        self._bar: BytesBar | None = None

    def __call__(self, sent_bytes: int, of_bytes: int) -> None:
        if self._bar is None:
            self._bar = self._make()
        self._bar.show(sent_bytes, of_bytes)
        if sent_bytes >= of_bytes:
            self.close()

    def close(self) -> None:
        """Erase an unfinished line, however the upload ended."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
