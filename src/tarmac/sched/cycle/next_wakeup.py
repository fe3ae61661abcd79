"""The time when a pool's rules make another cycle useful without a change of facts. Reported in
`Plan.next_at`.

A time too early costs a cycle; a missing one leaves slots with runs that should release them. So each time
counts at which a waiting run could preempt one more holding.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf

from tarmac.model.cluster import Policy
from tarmac.model.lifecycle import Mode
from tarmac.sched.cycle.due import turn_ends_at
from tarmac.sched.cycle.pool_cycle import PoolCycle
from tarmac.sched.index.holders import level_of
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.index.queues import ClassQueue, ModeQueue, Queued
from tarmac.sched.policies import blocks
from tarmac.sched.policies.fairness import PastUsage
from tarmac.sched.policies.order import BATCH, CYCLE, INTERRUPTIBLE, Key
from tarmac.sched.policies.precedence import Precedence
from tarmac.sched.policies.ranking import Place

LOOKED_AT = 16
"""The most rising holdings that are checked before one more cycle is accepted instead."""


ENTITIES = 32
"""The number of fair share entities, least claim first, whose waiting runs count.

A cycle tries no more in vain.
"""


def wakes_at(current: PoolCycle) -> float:
    """When a cycle over the pool could decide something that this finished one could not."""
    due = current.due
    if due.precedence is None:
        return inf
    at = min(_clockwork(current), _placed(current), inf if due.preemptor is None else due.preemptor.again_at)
    state = current.state
    if state.rules.preemption or state.holders.interruptible:
        waiting = list(_waiting(current))
        if waiting:
            at = min(at, _preemptible_at(state, due.precedence, waiting))
    return at


def _clockwork(current: PoolCycle) -> float:
    """When a turn ends, or a period in which a run may expect a block."""
    state, now = current.state, current.now
    turns_end = (turn_ends_at(holder.holding, state.rules) for holder in state.holders.cycle.values())
    at = min((moment for moment in turns_end if moment > now), default=inf)
    if state.holders.interruptible or (INTERRUPTIBLE, None) in state.queue.mode_queues:
        at = min(at, blocks.period_end(state.rules, now))
    return at


def _placed(current: PoolCycle) -> float:
    """When a placement of this cycle could be preempted if it starts at once."""
    rules, now = current.state.rules, current.now
    waiting = len(current.state.queue.runs) > len(current.new_holders)
    moments = []
    for holder in current.new_holders:
        candidate = holder.holding.candidate
        allotted_s = current.placed[candidate.run_id].allotted_s
        if allotted_s is not None and (waiting or candidate.mode is Mode.CYCLE):
            moments.append(now + allotted_s)
        elif waiting and rules.preemption:
            moments.append(now + rules.guaranteed_s)
    return min(moments, default=inf)


def _waiting(current: PoolCycle) -> Iterator[Queued]:
    """The first run that waits for slots in each class queue, and in the first mode queues of a fair share.

    Later runs of the same queue can preempt no other holdings.
    """
    for requests in current.state.queue.requests.values():
        for request in requests:
            if request.parked:
                continue
            for class_queue in request.plain:
                yield from _left_waiting(current, class_queue)
    past_usage = current.due.past_usage
    if past_usage is not None:
        for _, _, mode_queue in islice(current.state.fair.mode_queues(past_usage), ENTITIES):
            yield from _left_waiting(current, mode_queue)


def _left_waiting(current: PoolCycle, source: ModeQueue | ClassQueue) -> Iterator[Queued]:
    """The first run of a list that still waits, if any."""
    for _, queued in source.entries:
        run_id = queued.candidate.run_id
        if run_id not in current.placed and run_id not in current.awaiting:
            yield queued
            return


def _preemptible_at(state: PoolState, precedence: Precedence, waiting: Sequence[Queued]) -> float:
    """When one of the waiting runs could preempt one more holding than now."""
    now = precedence.now
    moments = (
        precedence.preemptible_at(queued.candidate, holder.holding)
        for holder in state.holders.interruptible.values()
        for queued in waiting
    )
    at = min((moment for moment in moments if moment > now), default=inf)
    batch = [queued for queued in waiting if queued.mode_queue.rank == BATCH]
    if not state.rules.preemption or all(queued.mode_queue.rank == INTERRUPTIBLE for queued in waiting):
        return at
    at = min(at, _unguarded_at(state, waiting, before=at))
    match state.rules.policy:
        case Policy.LEAST_ATTAINED:
            return min(at, _climbs_at(state, batch, before=at))
        case Policy.FAIR_SHARE:
            past_usage = precedence.past_usage
            return at if past_usage is None else min(at, _overdrawn_at(state, past_usage, batch))
        case _:
            return at


def _unguarded_at(state: PoolState, waiting: Sequence[Queued], *, before: float) -> float:
    """When the guaranteed time ends of a run that a waiting run precedes."""
    anybody = state.rules.policy is Policy.FAIR_SHARE or any(
        queued.mode_queue.rank == CYCLE for queued in waiting
    )
    first = () if anybody else min(queued.key for queued in waiting if queued.mode_queue.rank == BATCH)
    for until, _, _, key in state.holders.guarded:
        if until >= before:
            break
        if anybody or key > first:
            return until
    return inf


def _climbs_at(state: PoolState, batch: Sequence[Queued], *, before: float) -> float:
    """When a run rises above the level of a waiting run, or to its level but behind it."""
    firsts: dict[float, Key] = {}
    for queued in batch:
        level = level_of(queued.key)
        firsts[level] = min(queued.key, firsts.get(level, queued.key))
    for level, key in firsts.items():
        for climbs in state.holders.rising(level):
            for looked, (at, _, _, climbed) in enumerate(climbs):
                if at >= before:
                    break
                if climbed > key or looked == LOOKED_AT:
                    before = at
                    break
    return before


def _overdrawn_at(state: PoolState, past_usage: PastUsage, batch: Sequence[Queued]) -> float:
    """When the usage of an entity exceeds that of the next waiting entity."""
    entities = {queued.mode_queue.entity for queued in batch if queued.mode_queue.entity is not None}
    floors = sorted((past_usage.of(entity), entity) for entity in entities)
    at = inf
    for alike in state.fair.alike(state.holders.ready_groups):
        for _, entity, slots in _nearest(alike, floors, past_usage):
            usage = past_usage.of_holding(entity, slots)
            above = bisect_right(floors, (usage, chr(0x10FFFF)))
            floor = next((floor for floor, other in floors[above:] if other != entity), None)
            if floor is not None:
                at = min(at, past_usage.reaches_at(entity, floor - usage))
    return at


def _nearest(
    alike: Sequence[Place], floors: Sequence[tuple[float, str]], past_usage: PastUsage
) -> Iterator[Place]:
    """The groups of `alike` (sorted, usage grows alike) that are next below one of the floors."""
    if len(alike) <= len(floors):
        yield from alike
        return
    waiting = {entity for _, entity in floors}
    for floor in dict.fromkeys(floor for floor, _ in floors):
        first = bisect_left(alike, True, key=lambda place: past_usage.of_holding(place[1], place[2]) < floor)
        for place in islice(alike, first, None):
            yield place
            if place[1] not in waiting:  # not its own floor: groups further below reach it later
                break
