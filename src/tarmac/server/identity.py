"""Time, ids and secrets of the real world: the `Clock` and `Ids` that `wiring` gives the control plane."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: nothing to misread
_TIME_DIGITS = 9  # 45 bits of milliseconds: until the year 3084
_RANDOM_DIGITS = 3


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()


class RandomIds:
    """Run ids that sort by time: "r", the milliseconds, and a random end, in lower-case base 32.

    Ids of one process always grow, also within a millisecond and when the clock is set back, so that no two
    are the same; those of several servers differ by their random ends or their time (and the database
    refuses a run id that it knows).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def run_id(self, now: float) -> str:
        random_bits = _RANDOM_DIGITS * 5
        value = (int(now * 1000) << random_bits) | secrets.randbits(random_bits)
        with self._lock:
            self._last = value = max(value, self._last + 1)
        return "r" + _base32(value, _TIME_DIGITS + _RANDOM_DIGITS)

    def token(self) -> str:
        return secrets.token_urlsafe(24)


def _base32(value: int, digits: int) -> str:
    return "".join(_ALPHABET[value >> 5 * place & 31] for place in reversed(range(digits)))
