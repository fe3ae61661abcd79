"""The recent usage of users, projects or runs: the measure of the policy `fair_share`.

`PoolState` keeps the `Accounts` of a pool; a cycle orders mode queues by their `PastUsage`, which
`precedence` also uses. An `Account` counts slot-seconds that fade, half of them in each half-life: those of
ended attempts from their `UsageBucket` records, those of holdings up to now in closed form. So passing time
changes no data. Sums are whole numbers: they do not depend on the order of changes, and undoing a change
leaves no error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import floor, inf, log
from typing import Any

from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import Policy, Pool, ShareBy
from tarmac.sched.facts import Candidate, Holding, requested_slots

ADVANCE_GUARANTEES = 3
"""How many guarantees' worth of its own slots a run has in advance when usage is compared.

Wide runs use up their share in wide steps. Without an advance a run of four slots, used for one guarantee,
would wait until every other single slot has been used for four.
"""

EPOCH_HALF_LIVES = 64
"""Amounts are kept as of the beginning of their epoch, so that the numbers stay in bounds for ever."""

UNIT_BITS = 24
"""Amounts are whole multiples of 2**-24 slot-seconds."""

ROUNDING = 1e-9
"""The share of the parts of a usage by which rounding may change it."""

LEAST_QUANTUM_S = 60.0
"""The least time between changes of order if a pool guarantees less."""

LEAD_SHARE = 0.15
"""The share of its usage by which others must be behind an entity to preempt it, or a guarantee's worth.

Two entities that compete for the same slots then swap a number of times that grows with the logarithm of
their usage: docs/operating/scheduler.md explains this share.
"""

SOON_SHARE = 0.1
"""The share of the lead that is the least time between checks whether usage has turned against an entity."""


Alike = Sequence[tuple[Any, ...]]
"""Ranked groups of holdings of entities whose usage grows alike, the highest first."""


def entity_of(candidate: Candidate, rules: Pool) -> str:
    """The entity whose share a run counts for."""
    match rules.share_by:
        case ShareBy.USER:
            return candidate.owner
        case ShareBy.PROJECT:
            return candidate.project
    return candidate.group or candidate.run_id


def _entity_of_usage(usage: UsageBucket, rules: Pool) -> str | None:
    """The entity whose share a record counts for; None without a group, because the run has its usage."""
    match rules.share_by:
        case ShareBy.USER:
            return usage.user
        case ShareBy.PROJECT:
            return usage.project
    return usage.group or None


def own_usage(candidate: Candidate, rules: Pool) -> float:
    """The usage of a run's ended attempts, by its weight, if it has a share of its own; otherwise 0."""
    if rules.share_by is not ShareBy.RUN or candidate.group is not None:
        return 0.0
    return candidate.attained_slot_s / candidate.weight


def width_of(first: Candidate | None) -> int:
    """The slots that the first queued run of an entity requests (0: it has none)."""
    return 0 if first is None else requested_slots(first.demands)


def quantum_s(rules: Pool) -> float:
    """The least time that a run holds slots before usage may turn against it."""
    return max(rules.guaranteed_s, LEAST_QUANTUM_S)


def epoch_of(rules: Pool, at: float) -> int:
    """The epoch of a time."""
    return floor(at / rules.half_life_s / EPOCH_HALF_LIVES)


class PastUsage:
    """The usage of a pool's entities by their shares, as one cycle sees it."""

    def __init__(
        self, accounts: Accounts, rules: Pool, now: float, first: Callable[[str], Candidate | None]
    ) -> None:
        """`first` returns the first queued run of an entity."""
        self._accounts = accounts
        self._rules = rules
        self._now = now
        self._first = first
        self._used: dict[str, float] = {}
        self._charged: dict[str, float] = {}
        self._of: dict[str, float] = {}
        self._of_holding: dict[str, dict[int, float]] = {}
        self.quantum_s = quantum_s(rules)
        self._faded: float = 2.0 ** (epoch_of(rules, now) * EPOCH_HALF_LIVES - now / rules.half_life_s)

    def of(self, entity: str) -> float:
        """The usage that orders an entity's queued runs: the least goes first.

        That is its usage, less an advance for the width of its first run, plus the least usage of that run:
        so a run that it preempts does not preempt it in turn before it has had that.
        """
        found = self._of.get(entity)
        if found is None:
            found = self._of[entity] = self.used(entity) - self._advance(entity)
        return found

    def before(self, entity: str) -> float:
        """The same before the placements of this cycle."""
        return self._used[entity] - self._advance(entity) if entity in self._charged else self.of(entity)

    def of_holding(self, entity: str, slots: int) -> float:
        """The usage that counts against a holding of `slots` slots: that of its entity, less an advance.

        The advance is for its own width, or for that of the first queued run of its entity if that is wider:
        so a preempted run is ordered after its preemptor, also as part of its entity. The last guarantee in
        the advance is the lead of an entity; the lead is bigger if it used much.
        """
        known = self._of_holding.setdefault(entity, {})
        if slots not in known:
            quantum_slot_s = self._quantum_slot_s(entity, max(slots, width_of(self._first(entity))))
            used = self.used(entity)
            lead = max(LEAD_SHARE * used, quantum_slot_s)
            known[slots] = used - (ADVANCE_GUARANTEES - 1) * quantum_slot_s - lead
        return known[slots]

    def least(self, stays: float, place: tuple[Any, ...]) -> float:
        """A lower bound of `of` for an entity with this score."""
        fades: float = place[0] * self._faded
        return stays + fades - ROUNDING * (abs(stays) + abs(fades))

    def least_below(self, key: tuple[float, int, float], place: tuple[Any, ...]) -> float:
        """A lower bound of the negative of `of_holding` for a holding of an entity with this score."""
        stays, width, share = key
        quantum_slot_s = width * self.quantum_s / share
        fades: float = -place[0] * self._faded
        used = stays + fades
        lead = max(LEAD_SHARE * used, quantum_slot_s)
        return (ADVANCE_GUARANTEES - 1) * quantum_slot_s + lead - used - ROUNDING * (abs(stays) + abs(fades))

    def overdrawn(self, classes: Iterable[tuple[Any, Alike]], floor: float) -> set[tuple[str, int]]:
        """The ranked groups of holdings whose usage `of_holding` is at least `floor`."""
        found = set[tuple[str, int]]()
        for (stays, width, share), places in classes:
            quantum_slot_s = width * self.quantum_s / share
            advanced = floor + (ADVANCE_GUARANTEES - 1) * quantum_slot_s
            least = max(advanced / (1 - LEAD_SHARE), advanced + quantum_slot_s)
            below, rounding = (stays - least) / self._faded, ROUNDING * (stays + abs(least)) / self._faded
            surely = bisect_left(places, (below - rounding,))
            found.update([place[1:] for place in places[:surely]])
            for _, entity, slots in islice(places, surely, bisect_left(places, (below + rounding,))):
                if self.of_holding(entity, slots) >= floor:
                    found.add((entity, slots))
        return found

    def used(self, entity: str) -> float:
        """The usage of this entity by its share; it only grows during a cycle."""
        used = self._used.get(entity)
        if used is None:
            used = self._accounts.used_slot_s(entity, self._first(entity), self._now) / self._share(entity)
            self._used[entity] = used
        return used + self._charged[entity] if entity in self._charged else used

    def charge(self, candidate: Candidate, entity: str) -> None:
        """Count the least usage of a run of this entity that was just placed."""
        used = self.quantum_s * requested_slots(candidate.demands) / candidate.weight
        self.used(entity)
        self._charged[entity] = self._charged.get(entity, 0.0) + used / self._share(entity)
        self._of.pop(entity, None)
        self._of_holding.pop(entity, None)

    def reaches_at(self, entity: str, more: float) -> float:
        """When the usage of an entity that holds slots has grown by `more`, at the earliest (inf: never)."""
        growth = self._accounts.rate(entity) / self._share(entity)
        if growth <= 0:
            return inf
        soon_s = SOON_SHARE * max(self.quantum_s, LEAD_SHARE * self.used(entity) / growth)
        return self._now + max(more / growth, soon_s)

    def turns_at(self, score: tuple[float, int, float], alike: Alike, floor: float) -> float:
        """A lower bound of the times at which one of these ranked groups reaches `floor` or a higher one."""
        stays, mean_life_s = score[0], self._rules.half_life_s / log(2)
        if stays <= 0 or (self._charged and any(place[1] in self._charged for place in alike)):
            return -inf
        more = floor + self.least_below(score, alike[0])
        least_used = self.least(stays, (-alike[-1][0],))
        soon_s = max(more, SOON_SHARE * LEAD_SHARE * least_used) / stays * mean_life_s
        return self._now + max(soon_s, SOON_SHARE * self.quantum_s)

    def _advance(self, entity: str) -> float:
        return self._quantum_slot_s(entity, (ADVANCE_GUARANTEES - 1) * width_of(self._first(entity)))

    def _quantum_slot_s(self, entity: str, slots: int) -> float:
        """The usage of these slots during a guarantee."""
        return slots * self.quantum_s / self._share(entity)

    def _share(self, entity: str) -> float:
        return self._rules.shares.get(entity, 1.0)


class Accounts:
    """The accounts of all users or projects of one pool; empty without a fair share policy."""

    def __init__(self, rules: Pool, changed: Callable[[str], None] = lambda _: None) -> None:
        """`changed` is called with each entity whose account has changed."""
        self._rules = rules
        self._quantum_s = quantum_s(rules)
        self._changed = changed
        self._usage: list[UsageBucket] = []
        self._accounts: dict[str, Account] = {}

    @property
    def _fair(self) -> bool:
        return self._rules.policy is Policy.FAIR_SHARE

    def begin(self, holding: Holding) -> None:
        """Count a run that holds slots of this pool."""
        if self._fair:
            candidate = holding.candidate
            account = self._account(entity_of(candidate, self._rules))
            account.begin(holding.allocation.slots / candidate.weight, at=holding.granted_at)
            account.add(own_usage(candidate, self._rules), at=candidate.queued_at)

    def end(self, holding: Holding) -> None:
        """Stop counting a run: a record of its usage follows."""
        if self._fair:
            candidate = holding.candidate
            entity = entity_of(candidate, self._rules)
            account = self._account(entity)
            account.end(holding.allocation.slots / candidate.weight, at=holding.granted_at)
            account.add(-own_usage(candidate, self._rules), at=candidate.queued_at)
            if account.empty:
                del self._accounts[entity]

    def record(self, usage: UsageBucket) -> None:
        """Add a record of the usage of ended attempts."""
        self._usage.append(usage)
        entity = _entity_of_usage(usage, self._rules)
        if self._fair and entity is not None:
            self._account(entity).add(usage.slot_s, at=usage.hour_at)

    def restart(self, rules: Pool, holdings: Iterable[Holding]) -> None:
        """Count everything again, by other rules."""
        self._rules = rules
        self._quantum_s = quantum_s(rules)
        self._accounts.clear()
        usage, self._usage = self._usage, []
        for item in usage:
            self.record(item)
        for holding in holdings:
            self.begin(holding)

    def used_slot_s(self, entity: str, first: Candidate | None, now: float) -> float:
        """The faded usage of an entity up to now; `first` is its first queued run."""
        account = self._accounts.get(entity)
        return (0.0 if account is None else account.used_slot_s(now)) + self._own(first, now)

    def rate(self, entity: str) -> float:
        """The slots that an entity holds, by the weights of its runs."""
        account = self._accounts.get(entity)
        return 0.0 if account is None else account.rate

    def score(self, entity: str, first: Candidate | None, epoch: int) -> tuple[float, float]:
        """The usage of an entity in two parts: one that stays and one that fades.

        The first is the final usage of its holdings less its advance for `first`, a queued run; the second is
        as of the beginning of the epoch, and fades from there alike for all.
        """
        account, share = self._accounts.get(entity), self._rules.shares.get(entity, 1.0)
        advance = (ADVANCE_GUARANTEES - 1) * width_of(first) * self._quantum_s
        stays, fades = (0.0, 0.0) if account is None else account.parts(epoch)
        if self._rules.share_by is ShareBy.RUN:
            fades += self._own(first, epoch * EPOCH_HALF_LIVES * self._rules.half_life_s)
        return (stays - advance) / share, fades / share

    def _own(self, first: Candidate | None, at: float) -> float:
        """The usage of a queued run with a share of its own, as of `at`."""
        if first is None or not (used := own_usage(first, self._rules)):
            return 0.0
        faded: float = 2.0 ** ((first.queued_at - at) / self._rules.half_life_s)
        return used * faded

    def _account(self, entity: str) -> Account:
        self._changed(entity)
        account = self._accounts.get(entity)
        if account is None:
            account = self._accounts[entity] = Account(self._rules.half_life_s)
        return account


class Account:
    """The usage of one user or project in one pool."""

    __slots__ = ("_half_life_s", "_offsets", "_parts", "_rate", "_records")

    def __init__(self, half_life_s: float) -> None:
        self._half_life_s = half_life_s
        self._records: dict[int, int] = {}
        self._offsets: dict[int, int] = {}
        self._rate = 0
        self._parts: tuple[int, float, float] | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing was ever used."""
        return not self._records and not self._rate

    @property
    def rate(self) -> float:
        """The slots (by weight) that are held now."""
        return _float(self._rate)

    def add(self, slot_s: float, *, at: float) -> None:
        """Count usage from around `at`."""
        self._parts = None
        epoch, amount = self._as_of_epoch(slot_s, at)
        self._records[epoch] = self._records.get(epoch, 0) + amount

    def begin(self, rate: float, *, at: float) -> None:
        """Count `rate` slots (by weight) from `at` on, until a matching `end`."""
        self._change(rate, at, 1)

    def end(self, rate: float, *, at: float) -> None:
        """Undo a `begin`: the slots are free, and a record of their use follows."""
        self._change(rate, at, -1)

    def used_slot_s(self, now: float) -> float:
        """Slot-seconds used up to now, faded."""
        half_lives = now / self._half_life_s
        epoch = floor(half_lives / EPOCH_HALF_LIVES)
        stays, fades = self.parts(epoch)
        faded: float = 2.0 ** (epoch * EPOCH_HALF_LIVES - half_lives)
        return max(0.0, stays + fades * faded)

    def parts(self, epoch: int) -> tuple[float, float]:
        """The part of the usage that stays, and the part that fades, as of the beginning of this epoch."""
        if self._parts is None or self._parts[0] != epoch:
            mean_life_s = self._half_life_s / log(2)
            fades = self._faded(self._records, epoch) - mean_life_s * self._faded(self._offsets, epoch)
            self._parts = epoch, mean_life_s * _float(self._rate), fades
        return self._parts[1:]

    def _change(self, rate: float, at: float, sign: int) -> None:
        self._parts = None
        epoch, amount = self._as_of_epoch(rate, at)
        self._offsets[epoch] = self._offsets.get(epoch, 0) + sign * amount
        if not self._offsets[epoch]:
            del self._offsets[epoch]
        self._rate += sign * _whole(rate)

    def _as_of_epoch(self, amount: float, at: float) -> tuple[int, int]:
        """The epoch of a time, and the value of the amount at its beginning."""
        half_lives = at / self._half_life_s
        epoch = floor(half_lives / EPOCH_HALF_LIVES)
        return epoch, _whole(amount * 2.0 ** (half_lives - epoch * EPOCH_HALF_LIVES))

    def _faded(self, amounts: dict[int, int], epoch: int) -> float:
        """These amounts as of the beginning of an epoch."""
        half_lives = EPOCH_HALF_LIVES
        return sum(
            _float(amount) * 2.0 ** ((of - epoch) * half_lives) for of, amount in sorted(amounts.items())
        )


def _whole(amount: float) -> int:
    return round(amount * (1 << UNIT_BITS))


def _float(amount: int) -> float:
    return amount / (1 << UNIT_BITS)
