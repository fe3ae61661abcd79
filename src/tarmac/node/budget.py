"""How much of its time somebody may spend on something: a share, after a first amount.

Called by `torn` and the hook `watch`.
"""

from __future__ import annotations

import time


class Budget:
    """At most `share` of the time; what is not spent is saved, up to `most_s`."""

    def __init__(self, share: float, *, most_s: float) -> None:
        self._share = share
        self._most_s = most_s
        self._left_s = most_s
        self._counted_at = time.monotonic()

    def is_left(self) -> bool:
        """Whether something may be spent now."""
        now = time.monotonic()
        self._left_s = min(self._left_s + (now - self._counted_at) * self._share, self._most_s)
        self._counted_at = now
        return self._left_s > 0

    def spend(self, seconds: float) -> None:
        """So much was spent."""
        self._left_s -= seconds
