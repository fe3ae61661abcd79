"""Blocks of time for interruptible runs (I12): periods, shares and credit. Used by a cycle.

At the beginning of a period each interruptible run of a pool is promised a block of it. All blocks are equal,
and short enough for all runs one after another. Runs that fit side by side run side by side, and any run may
use the remaining time. Promised time that a run did not get, because others went before it, is its credit in
the next period, which sets a part aside for that.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import floor, inf

from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.progress import Share
from tarmac.model.run import block_begins_at
from tarmac.model.spec import DEFAULT_GRACE_S
from tarmac.sched.decisions import ShareGrant
from tarmac.sched.facts import Candidate, Holding

SERVED_S = 1e-3
"""A promise that is kept up to this many seconds counts as kept."""

HANDOVER_SHARE = 0.1
"""The largest share of a block that is set aside for the previous run to leave."""


class Tier(IntEnum):
    """The expectation of a run in this period: less than its block so far, credit beyond it, or nothing."""

    OWED = 0
    CREDIT = 1
    REST = 2


@dataclass(frozen=True, slots=True)
class Member:
    """An interruptible run: queued, or holding slots."""

    candidate: Candidate
    holding: Holding | None = None

    @property
    def cut(self) -> bool:
        """Whether it waits in the middle of its promised block."""
        share = self.candidate.share
        return self.holding is None and share is not None and 0 < share.used_s < share.allotted_s - SERVED_S

    def used_s(self, period_at: float, now: float) -> float:
        """The seconds used in the period of its share, including the running attempt."""
        share = self.candidate.share
        before_s = share.used_s if share is not None and share.period_at == period_at else 0.0
        return before_s + self.running_s(period_at, now)

    def running_s(self, since: float, until: float) -> float:
        """The seconds that its attempt has used between two times; a slow start or end does not count."""
        holding = self.holding
        if holding is None:
            return 0.0
        if holding.leave_requested_at is not None:
            until = min(until, holding.leave_requested_at)
        return max(0.0, until - max(block_begins_at(holding.granted_at, holding.started_at), since))


def period_at(pool: Pool, now: float) -> float:
    """When the period that contains `now` began."""
    return floor(now / pool.period_s + 1e-9) * pool.period_s


def period_end(pool: Pool, now: float) -> float:
    """When the period that contains `now` ends, and the next is shared out."""
    return (floor(now / pool.period_s + 1e-9) + 1) * pool.period_s


def tier(member: Member, pool: Pool, now: float) -> Tier:
    """The present expectation of a run."""
    return _tier_and_rest(member, pool, now)[0]


def _tier_and_rest(member: Member, pool: Pool, now: float) -> tuple[Tier, float]:
    """The expectation of a run, and the rest of its block or of its credit; beyond both, less than that."""
    began, share = period_at(pool, now), member.candidate.share
    used_s = member.used_s(began, now)
    if share is None or share.period_at != began:
        return Tier.REST, -used_s
    if used_s < share.allotted_s - SERVED_S:
        return Tier.OWED, share.allotted_s - used_s
    rest_s = share.allotted_s + share.credit_s - used_s
    return Tier.CREDIT if rest_s > SERVED_S else Tier.REST, rest_s


def order_key(member: Member, pool: Pool, now: float) -> tuple[float, ...]:
    """Sort key: the tier; runs whose block was cut; rank; beyond the promise, the least usage of it."""
    share = member.candidate.share
    expects, rest_s = _tier_and_rest(member, pool, now)
    if expects is Tier.REST or share is None:
        return Tier.REST, max(0.0, -rest_s), 0
    cut = expects is Tier.OWED and (share.used_s > 0.0 or member.holding is not None)
    return expects, 0 if cut else 1, share.rank


def allotted_s(candidate: Candidate, pool: Pool, now: float) -> float | None:
    """The promise to a run that starts now: the rest of its block (None: no block is left)."""
    expects, rest_s = _tier_and_rest(Member(candidate), pool, now)
    return rest_s if expects is Tier.OWED else None


def left_s(candidate: Candidate, pool: Pool, now: float) -> float:
    """How long a queued run may hold slots: the rest of its block, of its credit, or of the period."""
    expects, rest_s = _tier_and_rest(Member(candidate), pool, now)
    return period_end(pool, now) - now if expects is Tier.REST else rest_s


def promised_until(holding: Holding) -> float:
    """The time until which a run keeps its slots by the promise at its placement, even if a period ends."""
    if holding.allotted_s is None:
        return -inf
    return block_begins_at(holding.granted_at, holding.started_at) + holding.allotted_s


def changes_at(holding: Holding, pool: Pool, now: float) -> float:
    """When a run that holds slots has used up its block, or its credit (inf: not in this period)."""
    expects, rest_s = _tier_and_rest(Member(holding.candidate, holding), pool, now)
    begins_at = block_begins_at(holding.granted_at, holding.started_at)
    return inf if expects is Tier.REST else max(now, begins_at) + rest_s


def due(members: Iterable[Member], pool: Pool, now: float) -> bool:
    """Whether to share out this period: a run was there when it began, and none has a share yet."""
    began = period_at(pool, now)
    somebody = False
    for member in members:
        share = member.candidate.share
        if share is not None and share.period_at == began:
            return False
        somebody = somebody or member.candidate.submitted_at < began
    return somebody


def grants(members: Iterable[Member], pool: Pool, now: float) -> tuple[ShareGrant, ...]:
    """Shares of this period for all runs that were there when it began, in serving order.

    If not all get a block, a run whose block was cut has the rest of that one, and no other.
    """
    began, end = period_at(pool, now), period_end(pool, now)
    present = [member for member in members if member.candidate.submitted_at < began]
    waiting_longest = sorted(present, key=lambda member: _precedes(member, now))
    credit_s = {member.candidate.run_id: _carried_s(member, pool, began) for member in present}
    time_s = end - now - _set_aside_s(credit_s.values(), end - now, _handover_s(present))
    served = _how_many(len(present), pool, time_s)
    cut = sum(member.cut for member in present) if served < len(present) else 0
    others = waiting_longest[cut:]
    served = min(served, len(others))
    each_s = time_s / served if served else 0.0
    block_s = each_s - min(_handover_s(present), HANDOVER_SHARE * each_s)
    first = sorted(others[:served], key=lambda member: member.holding is None)
    granted: list[ShareGrant] = []
    for rank, member in enumerate((*waiting_longest[:cut], *first, *others[served:])):
        candidate, share = member.candidate, member.candidate.share
        if rank < cut and share is not None:
            share = replace(share, period_at=began, rank=rank)
        else:
            allotted_s, owed_s = block_s if rank < cut + served else 0.0, credit_s[candidate.run_id]
            share = Share(period_at=began, allotted_s=allotted_s, rank=rank, credit_s=owed_s)
        granted.append(ShareGrant(run_id=candidate.run_id, seq=candidate.seq, share=share))
    return tuple(granted)


def _precedes(member: Member, now: float) -> tuple[bool, float, float, float, str]:
    """Sort key: runs whose block was cut, until they have had more; then those that have waited longest."""
    candidate, share = member.candidate, member.candidate.share
    if member.holding is not None:
        return True, inf, now, candidate.submitted_at, candidate.run_id
    untouched = share is not None and share.used_s == 0.0
    rank = share.rank if untouched and share is not None else inf
    return not member.cut, rank, candidate.queued_at, candidate.submitted_at, candidate.run_id


def _how_many(members: int, pool: Pool, time_s: float) -> int:
    """The number of blocks in this time: one for each run, or as many as the floor allows."""
    if members * pool.floor_s <= time_s:
        return members
    return max(1, floor(time_s / pool.floor_s)) if members else 0


def _set_aside_s(credit_s: Collection[float], time_s: float, handover_s: float) -> float:
    """The time in which credit is paid back. Otherwise blocks would fill the period and credit would remain.

    Credit that all runs have alike is not paid back, and half of the period is for blocks.
    """
    least_s = min(credit_s, default=0.0)
    owed = [more_s - least_s + handover_s for more_s in credit_s if more_s > least_s + SERVED_S]
    return min(sum(owed), time_s / 2)


def _handover_s(members: Sequence[Member]) -> float:
    """The longest time that a previous run may take to leave."""
    return max(
        (DEFAULT_GRACE_S if member.holding is None else member.holding.grace_s for member in members),
        default=0.0,
    )


def _carried_s(member: Member, pool: Pool, began: float) -> float:
    """The rest of the last share, at most a period."""
    share = member.candidate.share
    if share is None:
        return 0.0
    used_s = share.used_s + member.running_s(share.period_at, began)
    return min(pool.period_s, max(0.0, share.allotted_s + share.credit_s - used_s))
