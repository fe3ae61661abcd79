"""Limits the computing time of one task to a share of all time, after an initial amount.

Called by `torn` and the hook `watch`. Only the CPU time of the calling thread counts: on a busy machine,
waiting for a processor costs no budget.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Iterator


class Budget:
    """At most `share` of the time; unspent time is saved, up to `most_s`."""

    def __init__(self, share: float, *, most_s: float) -> None:
        self._share = share
        self._most_s = most_s
        self._left_s = most_s
        self._counted_at = time.monotonic()

    def is_left(self) -> bool:
        """Whether any time may be spent now."""
        now = time.monotonic()
        self._left_s = min(self._left_s + (now - self._counted_at) * self._share, self._most_s)
        self._counted_at = now
        return self._left_s > 0

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the CPU time inside the context as spent."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._left_s -= time.thread_time() - began
