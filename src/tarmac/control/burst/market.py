"""The facts that rentals are decided on, read at one time: shapes, money, runs.

Used by `renting`, `reaping`, `telling` and `service`.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from tarmac.control.burst.charging import Spending
from tarmac.control.burst.choosing import LARGEST, accelerators, offers
from tarmac.control.state.control_state import ControlState
from tarmac.model.burst.rentals import Rental
from tarmac.model.burst.shapes import Offer
from tarmac.model.errors import NeverFits, Refused
from tarmac.model.people.limits import LimitKind, caps_of
from tarmac.model.people.usage import month_begin
from tarmac.model.run import Run

LONGEST_S = 31 * 86_400.0
"""A rental that began longer before this month, and has ended, does not count in it."""


class BurstRules(Struct, frozen=True, kw_only=True):
    """`[burst]`: whether a run has to be approved, by admins alone, and the most GPUs that it may rent."""

    approval: bool = True
    admins_approve: bool = False
    largest: Annotated[int, Meta(ge=1, le=100_000)] = LARGEST


class Market:
    """The facts at `now`: the open rentals, those of these runs, and what counts in this month."""

    def __init__(self, control: ControlState, rules: BurstRules, runs: Iterable[Run]) -> None:
        """Read the facts for these runs."""
        store, self.now, self.rules = control.store, control.clock.now(), rules
        self.runs, self.shapes = {run.id: run for run in runs}, store.rentals.shapes()
        limits, accounts = store.limits.limits(), {each.account: each for each in store.limits.accounts()}
        found = [*store.rentals.open_rentals(), *store.rentals.rentals(run_ids=list(self.runs))]
        if any(limit.rent_budget is not None for limit in limits):
            found += store.rentals.rentals(since=month_begin(self.now) - LONGEST_S)
        with control.lock:
            self.attempts = dict(control.run_cache().attempts)
        self._of: dict[str, dict[int, Rental]] = defaultdict(dict)
        for each in sorted(found, key=lambda each: each.number):
            self._of[each.run_id][each.number] = each
        self.spending = Spending(self.rentals, limits, accounts, self.now)
        self._caps = caps_of(limits, LimitKind.RENT_PER_HOUR)

    @property
    def rentals(self) -> list[Rental]:
        """All rentals, by run and number."""
        return [each for own in self._of.values() for each in own.values()]

    def of_run(self, run_id: str) -> list[Rental]:
        """The rentals of a run, by number."""
        return list(self._of[run_id].values()) if run_id in self._of else []

    def note(self, rental: Rental) -> None:
        """Take up a change of a rental that had no cost before."""
        self._of[rental.run_id][rental.number] = rental
        self.spending.add(rental)

    def offers(self, run: Run) -> list[Offer]:
        """The shapes that a run may rent, in the order in which they are tried."""
        return offers(
            run.spec.burst,
            run.spec,
            self.shapes,
            largest=self.rules.largest,
            purses=self.spending.purses(run),
            caps=self._caps,
            user=run.user,
            ran_s=run.ran_s,
        )

    def refuse(self, run: Run) -> None:
        """Refuse a run that can never have machines here."""
        most, count = self.rules.largest, accelerators(run.spec)
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
            named = run.spec.burst.shapes if run.spec.burst is not None else ()
            ids = f" of {', '.join(named)}" if named else ""
            raise NeverFits(
                f"{run.name} can never start here: no shape{ids} holds it: {'; '.join(reasons)}",
                hint="tarmac shapes ls lists all shapes",
                reasons=reasons,
            )
