"""What users, projects or runs have used of late: the measure behind the policy `fair_share`.

`PoolState` keeps the `Accounts` of a pool; a cycle orders mode queues by their `PastUsage`, and `precedence`
goes by them too. An `Account` counts slot-seconds that fade, half of them in each half-life: those of ended
attempts from their `Usage` records, those of holdings up to now in closed form. So nothing has to be touched
as time goes by. Sums are kept in whole numbers: they come out alike whatever the order in which they were
made, and what is taken back leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import floor, inf, log
from typing import Protocol

from tarmac.model.cluster import Policy, Pool, ShareBy
from tarmac.sched.facts import Candidate, Holding, Usage, requested_slots

ADVANCE_GUARANTEES = 3
"""How many guarantees' worth of its own slots a run has in advance when usage is compared.

Wide runs use up their share in wide steps. Without an advance a run of four slots, used for one guarantee,
would wait until everybody else's single slot has been used for four.
"""

EPOCH_HALF_LIVES = 64
"""Amounts are kept as of the beginning of their epoch, so that the numbers stay in bounds for ever."""

UNIT_BITS = 24
"""Amounts are whole multiples of 2**-24 slot-seconds."""

LEAST_QUANTUM_S = 60.0
"""Where a pool guarantees less, runs still change places no more often than this."""

LEAD_SHARE = 0.1
"""By so much of what an entity has used others must be behind to preempt it, or by a guarantee's worth.

Two that want the same slots then swap a number of times that grows with the logarithm of what they have used:
docs/operating/scheduler.md tells why this share.
"""

SOON_SHARE = 0.1
"""Whether usage has turned against somebody is looked at no more often than at this share of the lead."""


class Request(Protocol):
    """What a queued run asks for."""

    @property
    def slots(self) -> int: ...


class FirstQueued(Protocol):
    """A run in a queue: see `queues.Queued`."""

    @property
    def candidate(self) -> Candidate: ...
    @property
    def request(self) -> Request: ...


def entity_of(candidate: Candidate, rules: Pool) -> str:
    """Whose share a run counts for."""
    match rules.share_by:
        case ShareBy.USER:
            return candidate.owner
        case ShareBy.PROJECT:
            return candidate.project
    return candidate.group or candidate.run_id


def _entity_of_usage(usage: Usage, rules: Pool) -> str | None:
    """Whose share it counted for; None for a run that is of no group: its facts say what it has used."""
    match rules.share_by:
        case ShareBy.USER:
            return usage.owner
        case ShareBy.PROJECT:
            return usage.project
    return usage.group


def own_usage(candidate: Candidate, rules: Pool) -> float:
    """What ended attempts of a run have used, by its weight, where it has a share of its own."""
    if rules.share_by is not ShareBy.RUN or candidate.group is not None:
        return 0.0
    return candidate.attained_slot_s / candidate.weight


def quantum_s(rules: Pool) -> float:
    """How long a run holds slots at least before usage may turn against it."""
    return max(rules.guaranteed_s, LEAST_QUANTUM_S)


def epoch_of(rules: Pool, at: float) -> int:
    """The epoch of a moment."""
    return floor(at / rules.half_life_s / EPOCH_HALF_LIVES)


class PastUsage:
    """What the entities of a pool have used, by their shares, as one cycle sees it."""

    def __init__(
        self, accounts: Accounts, rules: Pool, now: float, first: Callable[[str], FirstQueued | None]
    ) -> None:
        """`first`: the first queued run of an entity."""
        self._accounts = accounts
        self._rules = rules
        self._now = now
        self._first = first
        self._used: dict[str, float] = {}
        self._of: dict[str, float] = {}
        self._of_holding: dict[str, dict[int, float]] = {}
        self.quantum_s = quantum_s(rules)

    def of(self, entity: str) -> float:
        """What is held against the queued runs of an entity: the least goes first.

        That is its usage, less an advance for the width of its first run, plus what that will use at least:
        so whoever is preempted by it does not preempt it in turn before it has had that.
        """
        found = self._of.get(entity)
        if found is None:
            advance = self._quantum_slot_s(entity, (ADVANCE_GUARANTEES - 1) * self._width(entity))
            found = self._of[entity] = self.used(entity) - advance
        return found

    def of_holding(self, entity: str, slots: int) -> float:
        """What is held against a holding of so many slots: the usage of its entity, less an advance.

        The advance is for its own width, or for that of the first queued run of its entity if that is wider:
        whoever is preempted is then ordered after the one that preempted it, as part of its entity too. The
        last guarantee of it is the lead that an entity may have; one that used much may have a bigger one.
        """
        known = self._of_holding.setdefault(entity, {})
        if slots not in known:
            quantum_slot_s, used = (
                self._quantum_slot_s(entity, max(slots, self._width(entity))),
                self.used(entity),
            )
            lead = max(LEAD_SHARE * used, quantum_slot_s)
            known[slots] = used - (ADVANCE_GUARANTEES - 1) * quantum_slot_s - lead
        return known[slots]

    def used(self, entity: str) -> float:
        """What this entity has used so far, by its share; it only grows during a cycle."""
        used = self._used.get(entity)
        if used is None:
            used = self._accounts.used_slot_s(entity, self._first(entity), self._now) / self._share(entity)
            self._used[entity] = used
        return used

    def charge(self, candidate: Candidate, entity: str) -> None:
        """A run of this entity was placed: what it will use at least counts at once."""
        used = self.quantum_s * requested_slots(candidate.demands) / candidate.weight
        self._used[entity] = self.used(entity) + used / self._share(entity)
        self._of.pop(entity, None)
        self._of_holding.pop(entity, None)

    def reaches_at(self, entity: str, more: float) -> float:
        """When so much more will stand against an entity that holds slots, at the earliest (inf: never)."""
        growth = self._accounts.rate(entity) / self._share(entity)
        if growth <= 0:
            return inf
        soon_s = SOON_SHARE * max(self.quantum_s, LEAD_SHARE * self.used(entity) / growth)
        return self._now + max(more / growth, soon_s)

    def _width(self, entity: str) -> int:
        """How many slots its first queued run asks for (0: it has none)."""
        first = self._first(entity)
        return 0 if first is None else first.request.slots

    def _quantum_slot_s(self, entity: str, slots: int) -> float:
        """What so many slots use in a guarantee."""
        return slots * self.quantum_s / self._share(entity)

    def _share(self, entity: str) -> float:
        return self._rules.shares.get(entity, 1.0)


class Accounts:
    """The accounts of all users or projects of one pool; kept only where shares are fair."""

    def __init__(self, rules: Pool, changed: Callable[[str], None] = lambda _: None) -> None:
        """`changed` is told whose account has changed."""
        self._rules = rules
        self._changed = changed
        self._usage: list[Usage] = []
        self._accounts: dict[str, Account] = {}

    @property
    def _fair(self) -> bool:
        return self._rules.policy is Policy.FAIR_SHARE

    def begin(self, holding: Holding) -> None:
        """A run holds slots of this pool."""
        if self._fair:
            candidate = holding.candidate
            account = self._account(entity_of(candidate, self._rules))
            account.begin(holding.allocation.slots / candidate.weight, at=holding.granted_at)
            account.add(own_usage(candidate, self._rules), at=candidate.queued_at)

    def end(self, holding: Holding) -> None:
        """It does no more: a record of what it used follows."""
        if self._fair:
            candidate = holding.candidate
            entity = entity_of(candidate, self._rules)
            account = self._account(entity)
            account.end(holding.allocation.slots / candidate.weight, at=holding.granted_at)
            account.add(-own_usage(candidate, self._rules), at=candidate.queued_at)
            if account.empty:
                del self._accounts[entity]

    def record(self, usage: Usage) -> None:
        """Take up what ended attempts used."""
        self._usage.append(usage)
        entity = _entity_of_usage(usage, self._rules)
        if self._fair and entity is not None:
            self._account(entity).add(usage.slot_s, at=usage.at)

    def restart(self, rules: Pool, holdings: Iterable[Holding]) -> None:
        """Count anew, by other rules."""
        self._rules = rules
        self._accounts.clear()
        usage, self._usage = self._usage, []
        for item in usage:
            self.record(item)
        for holding in holdings:
            self.begin(holding)

    def used_slot_s(self, entity: str, first: FirstQueued | None, now: float) -> float:
        """What an entity has used up to now, faded; `first` is its first queued run."""
        account = self._accounts.get(entity)
        return (0.0 if account is None else account.used_slot_s(now)) + self._own(first, now)

    def rate(self, entity: str) -> float:
        """How many slots an entity holds, by the weights of its runs."""
        account = self._accounts.get(entity)
        return 0.0 if account is None else account.rate

    def score(self, entity: str, first: FirstQueued | None, epoch: int) -> tuple[float, float]:
        """What is held against an entity, in two parts: what stays, and what fades.

        The first is what its holdings come to in the end, less its advance for `first`, a queued run; the
        second is as of the beginning of the epoch, and fades from there alike for all.
        """
        account, share = self._accounts.get(entity), self._rules.shares.get(entity, 1.0)
        width = 0 if first is None else first.request.slots
        advance = (ADVANCE_GUARANTEES - 1) * width * quantum_s(self._rules)
        stays, fades = (0.0, 0.0) if account is None else account.parts(epoch)
        fades += self._own(first, epoch * EPOCH_HALF_LIVES * self._rules.half_life_s)
        return (stays - advance) / share, fades / share

    def past_usage(self, now: float, first: Callable[[str], FirstQueued | None]) -> PastUsage | None:
        """What a cycle goes by; None where shares are not fair."""
        return PastUsage(self, self._rules, now, first) if self._fair else None

    def _own(self, first: FirstQueued | None, at: float) -> float:
        """What a queued run with a share of its own has used, as of a moment."""
        used = 0.0 if first is None else own_usage(first.candidate, self._rules)
        if not used or first is None:
            return 0.0
        faded: float = 2.0 ** ((first.candidate.queued_at - at) / self._rules.half_life_s)
        return used * faded

    def _account(self, entity: str) -> Account:
        self._changed(entity)
        account = self._accounts.get(entity)
        if account is None:
            account = self._accounts[entity] = Account(self._rules.half_life_s)
        return account


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

    @property
    def rate(self) -> float:
        """How many slots (by weight) are held now."""
        return _float(self._rate)

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
        open_use = mean_life_s * (_float(self._rate) - self._faded(self._offsets, now))
        return max(0.0, self._faded(self._records, now) + open_use)

    def parts(self, epoch: int) -> tuple[float, float]:
        """What stays of the use however long it lasts, and what fades, as of the beginning of this epoch."""
        mean_life_s = self._half_life_s / log(2)
        at = epoch * EPOCH_HALF_LIVES * self._half_life_s
        fades = self._faded(self._records, at) - mean_life_s * self._faded(self._offsets, at)
        return mean_life_s * _float(self._rate), fades

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
        faded = 0.0
        for epoch, amount in sorted(amounts.items()):
            faded += _float(amount) * 2.0 ** (epoch * EPOCH_HALF_LIVES - half_lives)
        return faded


def _whole(amount: float) -> int:
    return round(amount * (1 << UNIT_BITS))


def _float(amount: int) -> float:
    return amount / (1 << UNIT_BITS)
