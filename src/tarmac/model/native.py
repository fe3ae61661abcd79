"""An attempt as a cluster's own queue knows it, in the words of a foreign system. Part of `Attempt`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeStatus:
    """An attempt as the queue of its system knows it; `stuck`: it does not start unless `advice` is taken.

    `text` is the reason in plain words. `place` is where it stands among the `waiting` jobs of its queue, 1
    for the next; None: nobody knows.
    """

    id: str
    state: str = ""
    reason: str = ""
    text: str = ""
    advice: str = ""
    stuck: bool = False
    expected_start_at: float | None = None
    place: int | None = None
    waiting: int | None = None

    @property
    def because(self) -> str:
        """Its reason in plain words, with the system's own behind them; "" for none."""
        if not self.text:
            return self.reason
        return f"{self.text} ({self.reason})"
