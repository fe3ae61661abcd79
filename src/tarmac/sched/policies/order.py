"""The order of a pool's queue. Used by `queues`, and to compare two runs by `precedence` and others.

The order is total: mode, then the policy's measure of the run, then its id. Most of it is *static*: it does
not change while a run is queued, so that queues stay sorted (`Ordering.key`). One number for each entity of a
fair share changes from cycle to cycle (`PastUsage`).
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from tarmac.model.cluster import Policy, Pool
from tarmac.model.lifecycle import Mode
from tarmac.sched.facts import Candidate, requested_slots
from tarmac.sched.policies import blocks
from tarmac.sched.policies.blocks import Member
from tarmac.sched.policies.fairness import entity_of

Key = tuple[float | str, ...]
"""Sorts the runs of one queue; ends in the run's id."""

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
    """The order of the runs of one mode in a pool.

    `key` is static while `era` stays the same (no era: for ever). `entity` names the entity whose share a run
    counts for, if that matters.
    """

    key: Callable[[Candidate, Pool, float], Key]
    entity: Callable[[Candidate, Pool], str] | None = None
    era: Callable[[Pool, float], float] | None = None


def by_cycle_line(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """Cycle runs one after another; a turn ends at the back of the line, because the run is queued again."""
    place = candidate.queued_at if candidate.position is None else candidate.position
    return place, candidate.queued_at, candidate.run_id


def by_priority(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """Bigger priority first; then the place in the queue.

    The place of a run is its submission time until a person sets another on the same scale, so that a run can
    be put between any two others.
    """
    submitted_at = candidate.submitted_at
    place = submitted_at if candidate.position is None else candidate.position
    return -candidate.priority, place, submitted_at, candidate.run_id


def by_submission(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """First come, first served, within the runs of one entity of a fair share."""
    return candidate.submitted_at, candidate.run_id


def by_least_attained(candidate: Candidate, _rules: Pool, _era: float) -> Key:
    """Lowest level first; a queued run has the level that its ended attempts have reached, or of a guess."""
    return by_attainment(
        candidate,
        slots=requested_slots(candidate.demands),
        reached=level(max(candidate.attained_slot_s, guessed_slot_s(candidate))),
        ran_s=candidate.ran_s,
    )


def by_attainment(candidate: Candidate, *, slots: int, reached: float, ran_s: float) -> Key:
    """The place of a run that has reached a level and spent `ran_s` of its time limit.

    With a limit the remaining time counts. Without one, runs with fewer slots come first on a level: they are
    likely to have less left, because running times depend little on width.
    """
    if candidate.time_limit_s is None:
        return reached, slots, candidate.submitted_at, candidate.run_id
    left = known_level((candidate.time_limit_s - ran_s) * slots)
    return left, 0, candidate.submitted_at, candidate.run_id


def by_blocks(candidate: Candidate, rules: Pool, era: float) -> Key:
    """Runs that are owed time in the period that began at `era`, by rank; then runs with credit; then
    others.
    """
    return (*blocks.order_key(Member(candidate), rules, era), candidate.submitted_at, candidate.run_id)


BATCH_ORDERINGS: Mapping[Policy, Ordering] = {
    Policy.PRIORITY: Ordering(by_priority),
    Policy.FAIR_SHARE: Ordering(by_submission, entity=entity_of),
    Policy.LEAST_ATTAINED: Ordering(by_least_attained),
}
CYCLE_ORDERING = Ordering(by_cycle_line)
INTERRUPTIBLE_ORDERING = Ordering(by_blocks, era=blocks.period_at)


def ordering(rank: int, rules: Pool) -> Ordering:
    """The ordering of the runs of this rank under the rules of a pool."""
    if rank == BATCH:
        return BATCH_ORDERINGS[rules.policy]
    return CYCLE_ORDERING if rank == CYCLE else INTERRUPTIBLE_ORDERING


_FIRST_LEVEL_SLOT_S = 360.0
"""A tenth of a slot-hour: the levels are powers of ten of slot-hours, on every cluster."""

_STEP = 10
"""The ratio of usage between levels for runs without a time limit."""

TRUSTED_SLOT_S = 8 * 3600.0
"""The most that a guess counts for a run that has used less: on the level of 1 to 10 slot-hours."""

_KNOWN_STEP = 2.0
"""The ratio with a time limit: the rest is known, except for the margin that people leave, so it is
smaller.
"""

_LADDER: tuple[float, ...] = (0.0, *(_FIRST_LEVEL_SLOT_S * _STEP**number for number in range(12)))
_KNOWN_LADDER = (0.0, *(_FIRST_LEVEL_SLOT_S * _KNOWN_STEP**number for number in range(40)))


def level(attained_slot_s: float) -> float:
    """The level of a run without a time limit, as the slot-seconds where it begins.

    It is the measure of the policy `least_attained`. A run begins on the lowest level and climbs as it uses
    slot-seconds, ten times as many for each level. So runs that may be short preempt runs that have lasted
    ten times longer, and similar runs finish one after another instead of all together.
    docs/operating/scheduler.md explains the choice of levels.
    """
    return _LADDER[bisect_right(_LADDER, attained_slot_s) - 1]


def known_level(left_slot_s: float) -> float:
    """The level of a run with this many slot-seconds left of its time limit, on the same scale."""
    return _KNOWN_LADDER[bisect_right(_KNOWN_LADDER, max(0.0, left_slot_s)) - 1]


def guessed_slot_s(candidate: Candidate) -> float:
    """The part of the guess of a run that counts, until it has used more.

    A run that has used less than `TRUSTED_SLOT_S` keeps a place before all that have used more: a wrong guess
    costs it no more than two queues split there would.
    """
    most = inf if candidate.attained_slot_s >= TRUSTED_SLOT_S else TRUSTED_SLOT_S
    return min(candidate.guess_slot_s or 0.0, most)


def current_level(before_slot_s: float, slots: int, *, since: float, now: float, least: float = 0.0) -> float:
    """The level of a run that used `before_slot_s` and has held `slots` slots since `since`.

    It counts as having used at least `least` slot-seconds.
    """
    index = bisect_right(_LADDER, max(before_slot_s, least))
    while slots and index < len(_LADDER) and _reaches_at(index, before_slot_s, slots, since) <= now:
        index += 1
    return _LADDER[index - 1]


def climbs_at(before_slot_s: float, slots: int, *, since: float, now: float, least: float = 0.0) -> float:
    """When such a run reaches the level after its present one (inf: never)."""
    index = _LADDER.index(current_level(before_slot_s, slots, since=since, now=now, least=least)) + 1
    if not slots or index == len(_LADDER):
        return inf
    return _reaches_at(index, before_slot_s, slots, since)


def _reaches_at(index: int, before_slot_s: float, slots: int, since: float) -> float:
    """Shared by both functions, so that a cycle at exactly that time finds the level reached."""
    return since + (_LADDER[index] - before_slot_s) / slots
