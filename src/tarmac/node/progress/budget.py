"""A bound on the computing time of one task: a share of all time, after a first amount.

Called by `torn` and the hook `watch`. Only the CPU time of the own thread counts: on a busy machine a thread
waits for its turn, and that waiting costs no budget.
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
