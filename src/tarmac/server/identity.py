"""Time, ids and secrets of the real world: the `Clock` and `Ids` that `wiring` gives the control plane."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: nothing to misread
_TIME_DIGITS = 9  # 45 bits of milliseconds: until the year 3084
_RANDOM_DIGITS = 3
_LARGEST_STEP = 1024  # so that two servers whose clocks stand do not count alike


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()


class RandomIds:
    """Run ids that sort by time: "r", the milliseconds, and a random end, in lower-case base 32.

    Ids of one process always grow, also within a millisecond and when the clock is set back, so that no two
    are the same; those of several servers differ by their random ends or their time (and the database
    refuses a run id that it knows). They grow from `newest` on, the newest there is: a clock that was
    set back must not put new runs among the old ones.
    """

    def __init__(self, newest: str | None = None) -> None:
        self._lock = threading.Lock()
        self._last = _value(newest or "")

    def run_id(self, now: float) -> str:
        random_bits = _RANDOM_DIGITS * 5
        value = (int(now * 1000) << random_bits) | secrets.randbits(random_bits)
        with self._lock:
            if value <= self._last:
                value = self._last + 1 + secrets.randbelow(_LARGEST_STEP)
            self._last = value
        return "r" + _base32(value, _TIME_DIGITS + _RANDOM_DIGITS)

    def token(self) -> str:
        return secrets.token_urlsafe(24)


def _base32(value: int, digits: int) -> str:
    return "".join(_ALPHABET[value >> 5 * place & 31] for place in reversed(range(digits)))


def _value(run_id: str) -> int:
    """The number that a run id was made of; 0 for any other text."""
    digits = run_id[1:]
    if len(digits) != _TIME_DIGITS + _RANDOM_DIGITS or not set(digits) <= set(_ALPHABET):
        return 0
    value = 0
    for digit in digits:
        value = value << 5 | _ALPHABET.index(digit)
    return value
