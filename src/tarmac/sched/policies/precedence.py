"""The rules of preemption, now and later. Used by `preempting` (now) and to time the next cycle (later).

- A cycle run preempts interruptible runs at once, and batch runs only if the pool has preemption.
- A batch run preempts interruptible runs beyond their promise. If the pool has preemption, it also preempts
  those within it, and batch runs ordered after it: by priority and place, by level, or by usage and an
  advance.
- An interruptible run that is owed its block preempts those beyond theirs; one with credit preempts those
  beyond all promises that have run for the floor.
- No run preempts a cycle run. No run is preempted within the guaranteed time of its start, except
  interruptible runs by cycle runs or beyond their promise.
"""

from math import inf

from tarmac.model.cluster import Policy, Pool
from tarmac.sched.facts import Candidate, Holding
from tarmac.sched.policies import blocks, order
from tarmac.sched.policies.blocks import Member, Tier
from tarmac.sched.policies.fairness import PastUsage, entity_of


class Precedence:
    """The rules of one pool at one time. `past_usage` is set under fair share."""

    def __init__(self, rules: Pool, now: float, past_usage: PastUsage | None = None) -> None:
        self.rules = rules
        self.now = now
        self.past_usage = past_usage

    def preemptible_at(self, candidate: Candidate, holding: Holding) -> float:
        """When a queued run may preempt a holding, as far as is known: now or before, later, or inf."""
        if holding.leaving:
            return inf
        ours, theirs = order.RANKS[candidate.mode], order.RANKS[holding.candidate.mode]
        if theirs == order.CYCLE:
            return inf
        if theirs == order.INTERRUPTIBLE:
            return self._over_interruptible(candidate, ours, holding)
        if ours == order.INTERRUPTIBLE or not self.rules.preemption:
            return inf
        after = -inf if ours == order.CYCLE else self.ordered_after_at(candidate, holding)
        return max(after, self.guaranteed_until(holding))

    def guaranteed_until(self, holding: Holding) -> float:
        """The time until which a holding is safe from batch runs (inf: it has not started yet)."""
        if holding.started_at is None:
            return inf
        return holding.started_at + self.rules.guaranteed_s

    def ordered_after_at(self, candidate: Candidate, holding: Holding) -> float:
        """When a batch run that holds slots is ordered after a queued one (-inf: always was)."""
        if self.past_usage is not None:
            return self._overdrawn_at(candidate, holding, self.past_usage)
        key = order.ordering(order.BATCH, self.rules).key(candidate, self.rules, 0.0)
        at, slots = self.now, holding.allocation.slots
        while holder_key(holding, self.rules, at, slots=slots) <= key:
            at = climbs_next_at(holding, slots, self.rules, at)
            if at == inf:
                return inf
        return -inf if at == self.now else at

    def _overdrawn_at(self, candidate: Candidate, holding: Holding, past_usage: PastUsage) -> float:
        ours, theirs = entity_of(candidate, self.rules), entity_of(holding.candidate, self.rules)
        if ours == theirs:
            return inf
        floor = past_usage.of(ours)
        usage = past_usage.of_holding(theirs, holding.allocation.slots)
        return -inf if usage >= floor else past_usage.reaches_at(theirs, floor - usage)

    def _over_interruptible(self, candidate: Candidate, ours: int, holding: Holding) -> float:
        if ours == order.CYCLE:
            return -inf
        member = Member(holding.candidate, holding)
        expects = blocks.tier(member, self.rules, self.now)
        changes_at = blocks.changes_at(holding, self.rules, self.now)
        beyond_at = changes_at if expects is Tier.OWED else -inf
        if (promised_until := blocks.promised_until(holding)) > self.now:
            beyond_at = max(beyond_at, promised_until)
        if ours == order.BATCH:
            return min(beyond_at, self.guaranteed_until(holding)) if self.rules.preemption else beyond_at
        match blocks.tier(Member(candidate), self.rules, self.now):
            case Tier.OWED:
                return beyond_at
            case Tier.CREDIT:
                rest_at = -inf if expects is Tier.REST else changes_at
                return max(rest_at, beyond_at, holding.granted_at + self.rules.floor_s)
            case _:
                return inf


def holder_key(holding: Holding, rules: Pool, now: float, *, slots: int | None = None) -> order.Key:
    """The place in the order of batch runs that a holding (of `slots` slots) would have if queued now."""
    candidate = holding.candidate
    slots = holding.allocation.slots if slots is None else slots
    if rules.policy is not Policy.LEAST_ATTAINED:
        return order.ordering(order.BATCH, rules).key(candidate, rules, 0.0)
    ran_s = candidate.ran_s
    if holding.started_at is not None:
        ran_s += max(0.0, now - holding.started_at)
    least, since = order.guessed_slot_s(candidate), holding.granted_at
    reached = order.current_level(candidate.attained_slot_s, slots, since=since, now=now, least=least)
    return order.by_attainment(candidate, slots=slots, reached=reached, ran_s=ran_s)


def climbs_next_at(holding: Holding, slots: int, rules: Pool, now: float) -> float:
    """When the place of a holding in the order next changes for the worse (inf: never)."""
    candidate = holding.candidate
    if rules.policy is not Policy.LEAST_ATTAINED or candidate.time_limit_s is not None:
        return inf
    least = order.guessed_slot_s(candidate)
    return order.climbs_at(candidate.attained_slot_s, slots, since=holding.granted_at, now=now, least=least)
