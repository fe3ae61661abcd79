"""How much of its time somebody may compute for something: a share, after a first amount.

Called by `torn` and the hook `watch`. Only what a thread computes itself counts: where others keep the
machine busy, it waits for its turn, and takes nothing from them by that.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Iterator


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

    @contextmanager
    def spending(self) -> Iterator[None]:
        """What is computed inside is spent."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._left_s -= time.thread_time() - began
