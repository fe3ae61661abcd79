"""The facts that rentals are decided on, read at one time: shapes, money, runs.

Used by `renting`, `reaping`, `telling` and `service`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import Meta, Struct

from tarmac.control.burst.charging import Purse, purses
from tarmac.control.burst.choosing import LARGEST, accelerators, offers
from tarmac.control.state.control_state import ControlState
from tarmac.model.burst.rentals import Rental
from tarmac.model.burst.shapes import BurstRequest, Offer, Shape
from tarmac.model.errors import NeverFits, Refused
from tarmac.model.people.limits import CreditAccount, Limit, LimitKind, caps_of
from tarmac.model.people.usage import month_begin
from tarmac.model.run import Attempt, Run

LONGEST_S = 31 * 86_400.0
"""A rental that began longer before this month, and has ended, does not count in it."""


class BurstRules(Struct, frozen=True, kw_only=True):
    """`[burst]`: whether a run has to be approved, by admins alone, and the most GPUs that it may rent."""

    approval: bool = True
    admins_approve: bool = False
    largest: Annotated[int, Meta(ge=1, le=100_000)] = LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """The facts at `now`.

    `rentals` are the open ones, those of these runs, and what counts in this month; `of` has them by run.
    """

    now: float
    rules: BurstRules
    shapes: Sequence[Shape]
    limits: Sequence[Limit]
    accounts: Mapping[str, CreditAccount]
    rentals: Sequence[Rental]
    of: Mapping[str, Sequence[Rental]]
    runs: Mapping[str, Run] = field(default_factory=dict)
    attempts: Mapping[str, Attempt] = field(default_factory=dict)

    @staticmethod
    def read(control: ControlState, rules: BurstRules, runs: Iterable[Run]) -> "Market":
        """Read the facts for these runs."""
        store, now = control.store, control.clock.now()
        limits, by_id = store.limits.limits(), {run.id: run for run in runs}
        found = [*store.rentals.open_rentals(), *store.rentals.rentals(run_ids=list(by_id))]
        if any(limit.rent_budget is not None for limit in limits):
            found += store.rentals.rentals(since=month_begin(now) - LONGEST_S)
        with control.lock:
            attempts = dict(control.run_cache().attempts)
        rentals = sorted({each.id: each for each in found}.values(), key=lambda each: each.number)
        of: dict[str, list[Rental]] = {}
        for each in rentals:
            of.setdefault(each.run_id, []).append(each)
        return Market(
            now=now,
            rules=rules,
            shapes=store.rentals.shapes(),
            limits=limits,
            accounts={each.account: each for each in store.limits.accounts()},
            rentals=rentals,
            of=of,
            runs=by_id,
            attempts=attempts,
        )

    def of_run(self, run_id: str) -> Sequence[Rental]:
        """The rentals of a run, by number."""
        return self.of.get(run_id, ())

    def after(self, rental: Rental) -> "Market":
        """The same facts after a change of a rental."""
        own = [rental if each.id == rental.id else each for each in self.of_run(rental.run_id)]
        rentals = [rental if each.id == rental.id else each for each in self.rentals]
        return replace(self, rentals=rentals, of={**self.of, rental.run_id: own})

    def left(self, run: Run) -> float | None:
        """The rest of the run's own budget; None without one."""
        budget = run.spec.burst.budget if run.spec.burst is not None else None
        return None if budget is None else budget - sum(each.cost(self.now) for each in self.of_run(run.id))

    def purses(self, run: Run) -> list[Purse]:
        """The purses that pay for a run."""
        return purses(run, self.rentals, self.limits, self.accounts, self.now)

    def offers(self, run: Run) -> list[Offer]:
        """The shapes that a run may rent, in the order in which they are tried."""
        spec = run.spec
        return offers(
            spec.burst,
            spec,
            self.shapes,
            largest=self.rules.largest,
            purses=self.purses(run),
            caps=caps_of(self.limits, LimitKind.RENT_PER_HOUR),
            user=run.user,
            ran_s=run.ran_s,
        )

    def refuse(self, run: Run) -> None:
        """Refuse a run that can never have machines here."""
        most, count, named = (
            self.rules.largest,
            accelerators(run.spec),
            run.spec.burst or BurstRequest(),
        )
        if count > most:
            raise Refused(
                f"{run.name} is refused: a run on rented machines has at most {most} GPUs, not {count}",
                hint="ask for less; an administrator can set `largest` under [burst] in settings.toml",
            )
        if not self.shapes:
            raise Refused(
                f"{run.name} needs rented machines, and nothing can be rented here: there are no shapes",
                hint="an administrator adds a provider and its shapes: tarmac providers add, tarmac shapes"
                " import; --rehearse NODESxSLOTS runs it on this machine",
            )
        found = self.offers(run)
        if not any(each.machines if run.spec.is_burst else not each.refused for each in found):
            reasons = [f"{each.shape.id}: {each.refused}" for each in found]
            ids = f" of {', '.join(named.shapes)}" if named.shapes else ""
            raise NeverFits(
                f"{run.name} can never start here: no shape{ids} holds it: {'; '.join(reasons)}",
                hint="tarmac shapes ls lists all shapes",
                reasons=reasons,
            )
