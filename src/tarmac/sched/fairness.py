"""What users or projects have used of late: the measure behind the policy `fair_share`. Used by `precedence`.

An `Account` counts slot-seconds that fade, half of them in each half-life: those of ended attempts from
their `Usage` records, those of holdings up to now in closed form. So nothing has to be touched as time goes
by. Sums are kept in whole numbers: they come out alike whatever the order in which they were made, and what
is taken back leaves nothing behind.
"""

from __future__ import annotations

from math import floor, log

ADVANCE_GUARANTEES = 3
"""How many guarantees' worth of its own slots a run has in advance when usage is compared.

Wide runs use up their share in wide steps. Without an advance a run of four slots, used for one guarantee,
would wait until everybody else's single slot has been used for four.
"""

EPOCH_HALF_LIVES = 64
"""Amounts are kept as of the beginning of their epoch, so that the numbers stay in bounds for ever."""

UNIT_BITS = 24
"""Amounts are whole multiples of 2**-24 slot-seconds."""


class Account:
    """What one user or project has used in one pool."""

    __slots__ = ("_half_life_s", "_offsets", "_rate", "_records")

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._records: dict[int, int] = {}
        self._offsets: dict[int, int] = {}
        self._rate = 0

    @property
    def empty(self) -> bool:
        """Whether nothing was ever used."""
        return not self._records and not self._rate

    def add(self, slot_s: float, *, at: float) -> None:
        """Count what was used around `at`."""
        epoch, amount = self._as_of_epoch(slot_s, at)
        self._records[epoch] = self._records.get(epoch, 0) + amount

    def begin(self, rate: float, *, at: float) -> None:
        """Count so many slots (by weight) from `at` on, until `end` is told the same."""
        self._change(rate, at, 1)

    def end(self, rate: float, *, at: float) -> None:
        """Forget what `begin` was told: the slots are free, and a record of their use follows."""
        self._change(rate, at, -1)

    def used_slot_s(self, now: float) -> float:
        """Slot-seconds used up to now, faded."""
        mean_life_s = self._half_life_s / log(2)
        held = mean_life_s * (_float(self._rate) - self._faded(self._offsets, now))
        return max(0.0, self._faded(self._records, now) + held)

    def _change(self, rate: float, at: float, sign: int) -> None:
        epoch, amount = self._as_of_epoch(rate, at)
        self._offsets[epoch] = self._offsets.get(epoch, 0) + sign * amount
        if not self._offsets[epoch]:
            del self._offsets[epoch]
        self._rate += sign * _whole(rate)

    def _as_of_epoch(self, amount: float, at: float) -> tuple[int, int]:
        """The epoch of a moment, and what the amount was worth at its beginning."""
        half_lives = at / self._half_life_s
        epoch = floor(half_lives / EPOCH_HALF_LIVES)
        return epoch, _whole(amount * 2.0 ** (half_lives - epoch * EPOCH_HALF_LIVES))

    def _faded(self, amounts: dict[int, int], now: float) -> float:
        half_lives = now / self._half_life_s
        return sum(
            _float(amount) * 2.0 ** (epoch * EPOCH_HALF_LIVES - half_lives)
            for epoch, amount in sorted(amounts.items())
        )


def _whole(amount: float) -> int:
    return round(amount * (1 << UNIT_BITS))


def _float(amount: int) -> float:
    return amount / (1 << UNIT_BITS)
