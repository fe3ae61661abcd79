"""A bar on stderr for what is fetched: bytes of all, and how many a second. Used by `artifacts get`."""

from __future__ import annotations

from tarmac.cli.amounts import duration, size
from tarmac.cli.playbar import BAR_COLUMNS, PlayBar


class BytesBar(PlayBar):
    """Draws itself over and over on one line, on a terminal only; it is gone when all is there."""

    def _line(self, ended: int, of: int, took_s: float) -> str:
        share = ended / max(1, of)
        filled = round(share * BAR_COLUMNS)
        rate = ended / took_s
        left = f", {duration((of - ended) / rate)} left" if rate else ""
        bar = "█" * filled + "░" * (BAR_COLUMNS - filled)
        return f"{bar} {size(ended)} of {size(of)}, {share:.0%}, {size(rate)}/s{left}"
