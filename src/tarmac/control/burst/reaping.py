"""Looks at what each provider lists: takes rentals further, charges them, and deletes what no rental knows.

Whatever bears our tag is deleted unless an open rental has it. Things without it belong to others who use the
same account: they are reported, and never touched. Called by `renting`.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from tarmac.control.burst.charging import charges
from tarmac.control.burst.deciding import after_look, released
from tarmac.control.burst.market import Market
from tarmac.control.burst.renter import Renter
from tarmac.control.decisions.counting import doubled_s
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.burst.provider import AnswerLost, ProviderRecord, RentedThing, RentRefused, ThingState
from tarmac.model.burst.rentals import Rental, RentalEnd, RentalState, RentedClusters
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.people.limits import CreditAccount

log = logging.getLogger(__name__)

BUSY_S, SPOT_S, READY_S, IDLE_S = 15.0, 30.0, 60.0, 120.0
"""The pause between two looks: while something changes, with spot machines, with others, with none."""

LONGEST_S = 600.0
"""The longest pause after looks that failed."""

_CHANGES = frozenset({RentalState.CREATING, RentalState.STARTING, RentalState.RELEASING})


class Reaping:
    """The looks at all providers; `strangers` are the things of others at the last one, by provider."""

    def __init__(self, renter: Renter, rented: RentedClusters) -> None:
        self._renter, self._rented = renter, rented
        self._looked_at: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        self.strangers: dict[str, tuple[RentedThing, ...]] = {}
        self.troubles: dict[str, str] = {}

    def turn(self, market: Market) -> float | None:
        """Begin the looks that are due; returns the time of the next one."""
        due = []
        records = self._renter.control.store.rentals.providers()
        for name in self.strangers.keys() - {each.name for each in records}:
            del self.strangers[name]
        for record in records:
            usual_s = _pause_s(record, market.rentals)
            pause_s = doubled_s(usual_s, self._failures[record.name], LONGEST_S)
            at = self._looked_at.get(record.name, float("-inf")) + pause_s
            if market.now >= at:
                self._looked_at[record.name] = market.now
                self._renter.calls.begin(f"look {record.name}", partial(self._look, record))
                at = market.now + pause_s
            due.append(at)
        return min(due, default=None)

    def _look(self, record: ProviderRecord) -> None:
        """List everything, and act on it. The rentals are read before and after: some may be new or over."""
        renter, store = self._renter, self._renter.control.store.rentals
        before = store.open_rentals()
        try:
            provider = renter.open(record)
            listed = provider.list()
        except (Unavailable, RentRefused, InvalidInput) as error:
            if self.troubles.get(record.name) != error.message:
                log.warning("provider %s: %s", record.name, error)
            self.troubles[record.name] = error.message
            self._failures[record.name] += 1
            return
        self.troubles.pop(record.name, None)
        self._failures.pop(record.name, None)
        accounts = {each.account: each for each in renter.control.store.limits.accounts()}
        own = [each for each in before if each.shape is not None and each.shape.provider == record.name]
        rentals_of = {thing.id: rental.id for rental in own for thing in rental.things}
        things_of: dict[str | None, list[RentedThing]] = defaultdict(list)
        for each in listed:
            things_of[rentals_of.get(each.id, each.request)].append(each)
        for rental in own:
            if rental.server == renter.control.server and not renter.calls.busy(f"create {rental.id}"):
                self._apply(rental, things_of[rental.id], accounts)
        known = {each.id: each for each in (*before, *store.open_rentals())}
        covered = {thing.id for each in known.values() for thing in each.things}
        present = [each for each in listed if each.state is not ThingState.GONE]
        mine = [each for each in present if each.owner == record.owner]
        late = [each for each in mine if each.request not in known and each.id not in covered]
        others = (each for each in present if each.owner != record.owner)
        self.strangers[record.name] = tuple(each for each in others if each.request not in known)
        if unknown := self._reopen(late):
            try:
                provider.delete(unknown)
            except (Unavailable, AnswerLost) as error:
                log.info("provider %s: %s", record.name, error)

    def _apply(
        self, rental: Rental, listed: Sequence[RentedThing], accounts: Mapping[str, CreditAccount]
    ) -> None:
        """The next state of a rental after a list, with the charges that are due."""
        control = self._renter.control
        now, after = control.clock.now(), after_look(rental, listed, control.clock.now())
        ends = after.state is RentalState.ENDED
        if ends or after.state in (RentalState.STARTING, RentalState.READY):  # others may prove to cost less
            entries, count = charges(after, accounts, now, ends=ends)
            if entries:
                control.store.limits.add(entries)
                control.event_bus.notify(Wakeup.LIMITS)
            if count != rental.charges:
                after = replace(after, charges=count, seq=rental.seq + 1)
        if ends:
            self._rented.forget(rental)
        if after is not rental:
            self._renter.change(rental, after)

    def _reopen(self, late: Sequence[RentedThing]) -> list[RentedThing]:
        """Open rentals again whose machines appeared after their end; returns the things without any."""
        control, unknown = self._renter.control, list[RentedThing]()
        runs = sorted({each.run for each in late if each.run is not None})
        past = {each.id: each for each in control.store.rentals.rentals(run_ids=runs)} if late else {}
        by_request: dict[str, list[RentedThing]] = defaultdict(list)
        for each in late:
            by_request[each.request or ""].append(each)
        for request, things in by_request.items():
            old = past.get(request)
            if old is None:
                unknown += things
            elif old.server == control.server:
                known = {each.id: each for each in (*old.things, *things)}
                text = f"machines appeared after its end ({old.end}): {old.text}"
                again = replace(old, things=tuple(known.values()), ended_at=None, deleted_at=None, text=text)
                end = RentalEnd.ANSWER_LOST, text  # an earlier one stays
                self._renter.change(old, released(again, end, control.clock.now()))
        return unknown


def _pause_s(record: ProviderRecord, rentals: Sequence[Rental]) -> float:
    """The pause between two looks at a provider."""
    own = [each for each in rentals if each.open and each.shape and each.shape.provider == record.name]
    if any(each.state in _CHANGES or each.end is not None for each in own):
        return BUSY_S
    if any(each.shape is not None and each.shape.spot for each in own):
        return SPOT_S
    return READY_S if own else IDLE_S
