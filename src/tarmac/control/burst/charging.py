"""The money and credits for rentals: their charges, and what is left to pay for more. Pure.

A rental is charged by fixed periods from its creation, after each of them, and for the rest at its end. The
key of a charge is the number of its period: a charge that is made twice is one entry.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from msgspec import Struct

from tarmac.model.burst.rentals import Rental, RentalEnd, RentalState
from tarmac.model.changes import HOUR_S
from tarmac.model.people import limits as model
from tarmac.model.people.limits import CreditAccount, CreditEntry, accounts_of
from tarmac.model.people.usage import month_begin
from tarmac.model.run import Run

PERIOD_S = 600.0

WARN_S = 600.0
"""An owner is warned this long before money or time end, or once most of the money is used."""

_COSTS = frozenset({RentalState.CREATING, RentalState.STARTING, RentalState.READY, RentalState.RELEASING})


class Purse(Struct, frozen=True, kw_only=True):
    """Money, or credits, of which rentals have `used` a part, and of which open ones use `rate` an hour.

    `text` says that it is used up, and `end` is then the end of its rentals.
    """

    text: str
    end: RentalEnd
    most: float
    used: float
    rate: float

    @property
    def of_credits(self) -> bool:
        """Whether it has credits."""
        return self.end is RentalEnd.CREDITS_EXHAUSTED

    @property
    def left(self) -> float:
        """The unused part."""
        return self.most - self.used

    def pays(self, rate: float, for_s: float) -> bool:
        """Whether it pays for one more rental, beside the open ones, for some time."""
        return self.left > 0.0 and self.left >= (self.rate + rate) * for_s / HOUR_S

    def lasts_s(self) -> float:
        """How long it pays for the open rentals."""
        return self.left / self.rate * HOUR_S if self.rate > 0.0 else float("inf")

    def is_due_to_warn(self) -> bool:
        """Whether an owner has to be warned now. Accounts of credits have warnings of their own."""
        nearly = self.used >= model.WARNED_SHARE * self.most or self.lasts_s() <= WARN_S
        return nearly and not self.of_credits


def charges(
    rental: Rental, accounts: Mapping[str, CreditAccount], now: float, *, ends: bool = False
) -> tuple[list[CreditEntry], int]:
    """The charges for the periods that are over, and for the rest if it `ends`; the number of all then."""
    entries: list[CreditEntry] = []
    number, created_at, shape = rental.charges, rental.created_at, rental.shape
    if created_at is None or shape is None or not rental.machines_known:
        return entries, number
    while (begin := created_at + number * PERIOD_S) + PERIOD_S <= now or (ends and begin < now):
        until, key = min(begin + PERIOD_S, now), f"rental/{rental.id}/{number}"
        for name in accounts_of(rental.user, rental.project):
            hours = rental.hours(until, max(begin, accounts[name].since)) if name in accounts else 0.0
            if amount := hours * shape.credits_per_hour:
                kind = model.EntryKind.CHARGE
                entries.append(CreditEntry(account=name, kind=kind, at=until, amount=-amount, key=key))
        number += 1
    return entries, number


class Spending:
    """The sums of what rentals have used, and use in one hour: by run, scope of a limit, and account."""

    def __init__(
        self,
        rentals: Iterable[Rental],
        limits: Iterable[model.Limit],
        accounts: Mapping[str, CreditAccount],
        now: float,
    ) -> None:
        """`rentals`: all that may count, which are open ones, those of the month, and those of the runs."""
        self._accounts, self._now, self._month_at = accounts, now, month_begin(now)
        self._caps = model.caps_of(limits, model.LimitKind.RENT_BUDGET)
        self._sums: dict[object, tuple[float, float]] = {}
        for each in rentals:
            self.add(each)

    def add(self, rental: Rental) -> None:
        """Count one more rental, or one that had no cost before."""
        for key, used, rate in self._parts(rental):
            before = self._of(key)
            self._sums[key] = before[0] + used, before[1] + rate

    def of_run(self, run_id: str) -> float:
        """The money that a run has spent, over all its rentals."""
        return self._of(run_id)[0]

    def purses(self, run: Run) -> list[Purse]:
        """The purses of a run: its own budget, budgets of a month, credits."""
        found, (used, rate) = [], self._of(run.id)
        if run.spec.burst is not None and (most := run.spec.burst.budget) is not None:
            text = f"the budget of the run is used up: {used:.2f} of {most:g}"
            found.append(Purse(text=text, end=RentalEnd.BUDGET, most=most, used=used, rate=rate))
        for cap, scope in model.matching(self._caps, model.SlotUse(run.user, run.project, None)):
            used, rate = self._of((scope.user, scope.project))
            text = cap.on(scope, used).text
            found.append(Purse(text=text, end=RentalEnd.BUDGET, most=cap.most, used=used, rate=rate))
        for name in accounts_of(run.user, run.project):
            if (account := self._accounts.get(name)) is not None:
                used, rate = self._of(name)
                end, used = RentalEnd.CREDITS_EXHAUSTED, used + account.used
                text = account.cap.on(account.cap, used).text
                found.append(Purse(text=text, end=end, most=account.granted, used=used, rate=rate))
        return found

    def _of(self, key: object) -> tuple[float, float]:
        return self._sums.get(key, (0.0, 0.0))

    def _parts(self, rental: Rental) -> Iterator[tuple[object, float, float]]:
        """The parts of a rental in these sums."""
        if (shape := rental.shape) is None:
            return
        costing = rental.machines if rental.state in _COSTS else 0
        rate, in_month = costing * shape.rate, rental.cost(self._now, self._month_at)
        yield rental.run_id, rental.cost(self._now), rate
        for scope in product((None, rental.user), (None, rental.project)):
            yield scope, in_month, rate
        for name in accounts_of(rental.user, rental.project):
            if (account := self._accounts.get(name)) is not None:
                used = _uncharged(rental, account, self._now) * shape.credits_per_hour
                yield name, used, costing * shape.credits_per_hour


def _uncharged(rental: Rental, account: CreditAccount, now: float) -> float:
    """The hours of an open rental that are not charged yet."""
    if not rental.open or rental.created_at is None:
        return 0.0
    return rental.hours(now, max(rental.created_at + rental.charges * PERIOD_S, account.since))
