"""The money and credits for rentals: their charges, and what is left to pay for more. Pure.

A rental is charged by fixed periods from its creation, after each of them, and for the rest at its end. The
key of a charge is the number of its period: a charge that is made twice is one entry.
"""

from collections.abc import Iterable, Mapping, Sequence

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


def purses(
    run: Run,
    known: Sequence[Rental],
    limits: Iterable[model.Limit],
    accounts: Mapping[str, CreditAccount],
    now: float,
) -> list[Purse]:
    """The purses of a run: its own budget, budgets of a month, credits. `known`: all that may count."""
    found = []
    budget = run.spec.burst.budget if run.spec.burst is not None else None
    if budget is not None:
        own = [each for each in known if each.run_id == run.id]
        used = sum(each.cost(now) for each in own)
        text = f"the budget of the run is used up: {used:.2f} of {budget:g}"
        found.append(_purse(text, RentalEnd.BUDGET, budget, used, own))
    use, month_at = model.SlotUse(run.user, run.project, None), month_begin(now)
    for cap, scope in model.matching(model.caps_of(limits, model.LimitKind.RENT_BUDGET), use):
        within = [each for each in known if _is_of(each, scope)]
        used = sum(each.cost(now, month_at) for each in within)
        found.append(_purse(cap.on(scope, used).text, RentalEnd.BUDGET, cap.most, used, within))
    for name in accounts_of(run.user, run.project):
        if (account := accounts.get(name)) is not None:
            paid = [each for each in known if name in accounts_of(each.user, each.project)]
            used = account.used + sum(_uncharged(each, account, now) for each in paid)
            cap = account.cap.on(account.cap, used)
            found.append(_purse(cap.text, RentalEnd.CREDITS_EXHAUSTED, account.granted, used, paid))
    return found


def _purse(text: str, end: RentalEnd, most: float, used: float, rentals: Iterable[Rental]) -> Purse:
    costing = [each for each in rentals if each.state in _COSTS and each.shape is not None]
    in_credits = sum(each.machines * each.shape.credits_per_hour for each in costing if each.shape)
    rate = in_credits if end is RentalEnd.CREDITS_EXHAUSTED else sum(each.rate for each in costing)
    return Purse(text=text, end=end, most=most, used=used, rate=rate)


def _uncharged(rental: Rental, account: CreditAccount, now: float) -> float:
    if not rental.open or rental.shape is None or rental.created_at is None:
        return 0.0
    since = max(rental.created_at + rental.charges * PERIOD_S, account.since)
    return rental.hours(now, since) * rental.shape.credits_per_hour


def _is_of(rental: Rental, scope: model.LimitScope) -> bool:
    return scope.user in (None, rental.user) and scope.project in (None, rental.project)
