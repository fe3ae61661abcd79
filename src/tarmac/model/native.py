"""An attempt in the queue of its cluster, in the words of that system. Part of `Attempt`."""

from __future__ import annotations

from msgspec import Struct


class NativeStatus(Struct, frozen=True, kw_only=True):
    """An attempt in the queue of its system; `stuck`: it does not start unless a person follows `advice`.

    `text` is the reason in plain words. `place` is its position among the `waiting` jobs of its queue, 1 for
    the next; None: unknown.
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
        """The reason in plain words, with the system's own after it; "" for none."""
        if not self.text:
            return self.reason
        return f"{self.text} ({self.reason})"
