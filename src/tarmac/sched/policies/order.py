"""The order of a pool's queue: who is asked first. Used by `queues`, and by whatever compares two runs.

The order is total: mode, then what the policy makes of the run, then its id. Most of it is *static*: it does
not change while a run is queued, so that queues stay sorted (`Ordering.key`). One number for each entity of
a fair share changes from cycle to cycle (`PastUsage`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tarmac.model.cluster import Policy, Pool
from tarmac.model.spec import Mode
from tarmac.sched.facts import Candidate, requested_slots
from tarmac.sched.policies import blocks
from tarmac.sched.policies.attainment import known_level, level
from tarmac.sched.policies.blocks import Member
from tarmac.sched.policies.fairness import entity_of

Key = tuple[float | str, ...]
"""Sorts the runs of one line; ends in the run's id."""

CYCLE, BATCH, INTERRUPTIBLE = range(3)
"""The ranks of the modes."""

RANKS: Mapping[Mode, int] = {
    Mode.CYCLE: CYCLE,
    Mode.BATCH: BATCH,
    Mode.BURST: BATCH,
    Mode.INTERRUPTIBLE: INTERRUPTIBLE,
}


@dataclass(frozen=True, slots=True)
class Ordering:
    """How runs of one mode are ordered in a pool.

    `key` is static as long as `era` of the moment is the same (no era: for ever). `entity` names whose share
    a run counts for, where that matters.
    """

    key: Callable[[Candidate, Pool, float], Key]
    entity: Callable[[Candidate, Pool], str] | None = None
    era: Callable[[Pool, float], float] | None = None


def by_cycle_line(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """One after another; back of the line after each turn, because that is when it queued again."""
    place = candidate.queued_at if candidate.position is None else candidate.position
    return place, candidate.queued_at, candidate.run_id


def by_priority(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """Bigger priority first; then the place in the queue.

    A run's place is its submission time until a person gives it another: both are on one scale, so that a
    run can be put between any two others.
    """
    submitted_at = candidate.submitted_at
    place = submitted_at if candidate.position is None else candidate.position
    return -candidate.priority, place, submitted_at, candidate.run_id


def by_submission(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """First come, first served: within the runs of one entity of a fair share."""
    return candidate.submitted_at, candidate.run_id


def by_least_attained(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """Lowest level first; a queued run has the level that its ended attempts have brought it to."""
    return by_attainment(
        candidate,
        slots=requested_slots(candidate.demands),
        reached=level(candidate.attained_slot_s),
        ran_s=candidate.ran_s,
    )


def by_attainment(candidate: Candidate, *, slots: int, reached: float, ran_s: float) -> Key:
    """The place of a run that has reached a level, and run so long of its time limit.

    With a limit it is known how much is left: that counts then. Without one, of runs on the same level those
    with fewer slots are likely to have less left, because how long runs last says little of their width.
    """
    if candidate.time_limit_s is None:
        return reached, slots, candidate.submitted_at, candidate.run_id
    left = known_level((candidate.time_limit_s - ran_s) * slots)
    return left, 0, candidate.submitted_at, candidate.run_id


def by_blocks(candidate: Candidate, rules: Pool, era: float) -> Key:
    """Who is owed time in the period that began then, by rank; then who has credit; then the others."""
    return (*blocks.order_key(Member(candidate), rules, era), candidate.submitted_at, candidate.run_id)


BATCH_ORDERINGS: Mapping[Policy, Ordering] = {
    Policy.PRIORITY: Ordering(by_priority),
    Policy.FAIR_SHARE: Ordering(by_submission, entity=entity_of),
    Policy.LEAST_ATTAINED: Ordering(by_least_attained),
}
CYCLE_ORDERING = Ordering(by_cycle_line)
INTERRUPTIBLE_ORDERING = Ordering(by_blocks, era=blocks.period_at)


def ordering(rank: int, rules: Pool) -> Ordering:
    """How runs of this rank are ordered under the rules of a pool."""
    if rank == BATCH:
        return BATCH_ORDERINGS[rules.policy]
    return CYCLE_ORDERING if rank == CYCLE else INTERRUPTIBLE_ORDERING
