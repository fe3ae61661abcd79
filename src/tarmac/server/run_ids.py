"""`RandomIds`: ids of runs that sort by time, and tokens of attempts. Made by `wiring`."""

import secrets
import threading

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u, which are easily misread
_TIME_DIGITS = 9  # 45 bits of milliseconds: until the year 3084
_RANDOM_DIGITS = 3
_LARGEST_STEP = 1024  # so that two servers with stopped clocks do not count alike


class RandomIds:
    """Run ids that sort by time: "r", the milliseconds, and a random end, in lower-case base 32.

    Ids of one process always increase, also within a millisecond and after the clock is set back, so no two
    are equal; those of several servers differ by their random ends or their time (and the database refuses a
    known run id). They start above `newest`, the newest existing id: a clock that was set back must not sort
    new runs among the old ones.
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
        places = reversed(range(_TIME_DIGITS + _RANDOM_DIGITS))
        return "r" + "".join(_ALPHABET[value >> 5 * place & 31] for place in places)

    def token(self) -> str:
        return secrets.token_urlsafe(24)


def _value(run_id: str) -> int:
    """The number encoded in a run id; 0 for any other text."""
    digits = run_id[1:]
    if len(digits) != _TIME_DIGITS + _RANDOM_DIGITS or not set(digits) <= set(_ALPHABET):
        return 0
    value = 0
    for digit in digits:
        value = value << 5 | _ALPHABET.index(digit)
    return value
