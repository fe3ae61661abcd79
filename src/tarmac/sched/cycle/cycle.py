"""One cycle of the scheduler over all pools, and the time of the next one. Called by `Ledger.plan`.

docs/operating/scheduler.md describes its steps in order. `Plan.next_at` is the time when the rules of a pool
make another cycle useful without a change of facts. A time too early costs a cycle; a missing one leaves
slots with runs that should release them. So each time counts at which a waiting run could preempt one more
holding.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from math import inf

from tarmac.model.cluster import Policy
from tarmac.model.lifecycle import Mode
from tarmac.model.people.limits import Cap
from tarmac.model.progress import CauseCode
from tarmac.model.resources import Reason, ReasonCode
from tarmac.sched.cycle.due import due_in_pool, turn_ends_at
from tarmac.sched.cycle.pool_cycle import PoolCycle
from tarmac.sched.cycle.queue_walk import along, walk_queue
from tarmac.sched.decisions import Placement, Plan, PreemptionReason, Refusal, ShareGrant, preemption_of
from tarmac.sched.facts import Candidate
from tarmac.sched.index.facts_index import FactsIndex
from tarmac.sched.index.forecast import Holder
from tarmac.sched.index.holders import level_of
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.index.queues import ClassQueue, ModeQueue, Queued, RequestClass, limit_s
from tarmac.sched.placing.board import PoolKey
from tarmac.sched.placing.reasons import why_never, why_not_now
from tarmac.sched.policies import blocks
from tarmac.sched.policies.fairness import PastUsage
from tarmac.sched.policies.order import BATCH, CYCLE, INTERRUPTIBLE, Key
from tarmac.sched.policies.precedence import Precedence
from tarmac.sched.policies.ranking import Place


class Cycle:
    """The decisions of a cycle in each pool. `close` undoes its changes to the pools."""

    def __init__(self, index: FactsIndex, now: float) -> None:
        self.now = now
        self.pools: dict[PoolKey, PoolCycle] = {}
        self._index = index
        self._placed: dict[str, Placement] = {}
        self._limits = index.limit_book()

    def run(self) -> Plan:
        """Decide over all pools."""
        for key in self._index.pools:
            current = self.enter(key)
            walk_queue(current)
            current.next_at = min(wakes_at(current), current.state.zones.next_at())
        if len(self.pools) > 1:
            for current in self.pools.values():
                self._spill(current)
        # Runs that hold slots in another pool than the one a person moved them to return.
        preemptions = [
            preemption_of(holder.holding, PreemptionReason.POOL_CHANGED)
            for _, holder in sorted(self._index.misplaced.items())
        ]
        shares = list[ShareGrant]()
        next_at = self._index.deferred.wakes_at()
        for current in self.pools.values():
            preemptions += current.preemptions
            shares += current.due.shares
            next_at = min(next_at, current.next_at)
        leaving = {preemption.run_id for preemption in preemptions}
        preemptions += [
            preemption_of(holder.holding, PreemptionReason.RESERVED)
            for current in self.pools.values()
            for run_id, holder in sorted(current.state.barred())
            if run_id not in leaving
        ]
        return Plan(
            placements=tuple(self._placed.values()),
            preemptions=tuple(preemptions),
            refusals=tuple(self._refusals()),
            shares=tuple(shares),
            next_at=next_at if next_at < inf else None,
        )

    def stop_at(self, run_id: str) -> PoolCycle | None:
        """Decide in the home pool of a queued run up to its turn; None if it has no home pool."""
        home = self._index.home(run_id)
        if home is None:
            return None
        current = self.enter(home.key)
        walk_queue(current, until=run_id)
        current.protect()
        return current

    def starts_now(self, candidate: Candidate) -> bool:
        """Whether a run, queued or not, would start now. Takes no slots."""
        request = self._index.request_of(candidate)
        pools = request.feasibility.pools if request.target.pool is None else request.feasibility.pools[:1]
        if self.exceeded(candidate, request) is not None:
            return False
        return any(self.enter(key).fitting(candidate, request) is not None for key in pools)

    def exceeded(self, candidate: Candidate, request: RequestClass) -> Cap | None:
        """The limit that keeps a run from starting in every pool that fits it."""
        if self._limits is None:
            return None
        found = [self.enter(key).exceeded(candidate, request) for key in request.feasibility.pools]
        return found[0] if found and all(found) else None

    def close(self) -> None:
        """Undo the changes to all pools."""
        for current in self.pools.values():
            current.close()

    def enter(self, key: PoolKey) -> PoolCycle:
        """Begin the cycle of a pool, or return the one begun."""
        if key not in self.pools:
            state = self._index.pools[key]
            due = due_in_pool(state, self.now, at_home=self._at_home)
            self.pools[key] = PoolCycle(state, self.now, due=due, placed=self._placed, limits=self._limits)
        return self.pools[key]

    def reasons(self, request: RequestClass, *, run_id: str | None = None) -> tuple[Reason, ...]:
        """Why a request class does not start now; reservations for `run_id` itself do not count."""
        index = self._index
        ended_at = inf if run_id is None else self.now + limit_s(index.candidate(run_id))
        return why_not_now(
            index.cluster(),
            request.demands,
            request.target,
            feasibility=request.feasibility,
            holdings=[
                holder.holding
                for state in index.pools.values()
                for holder in (*state.holdings.values(), *self.enter(state.key).new_holders)
            ],
            spaces={
                name: space for state in index.pools.values() for name, space in state.board.spaces.items()
            },
            reserved_for={
                name: index.candidate(reservation.run_id).label
                for current in self.pools.values()
                for reservation in current.reservations
                if reservation.run_id != run_id
                for name in reservation.nodes
            },
            reserved_by={
                name: barrier
                for current in self.pools.values()
                for name, barrier in current.state.barriers(request.standing, ended_at)
            },
        )

    def never(self, request: RequestClass) -> tuple[tuple[Reason, ...], str | None]:
        """Why no empty cluster fits a request class, and the biggest request that one would fit."""
        reasons = why_never(self._index.cluster(), request.demands, request.target)
        return reasons, self._index.admission.largest(request.demands, request.target)

    def _at_home(self, holder: Holder) -> bool:
        """Whether a run holds slots in its home pool, where it is queued again."""
        return self._index.request_of(holder.holding.candidate).feasibility.pools[:1] == holder.pools[:1]

    def _spill(self, home: PoolCycle) -> None:
        """Start runs that name no pool and did not fit at home in the free slots of other pools."""
        most_free = max(current.state.board.free[None] for current in self.pools.values())
        asking = home.state.queue.up_to(most_free)
        walk = along(home, (request for request in asking if self._elsewhere(request)))
        while (step := walk.next()) is not None:
            _, class_queue, index = step
            assert isinstance(class_queue, ClassQueue)
            queued = class_queue.entries[index][1]
            run_id = queued.candidate.run_id
            index += 1
            if run_id not in self._placed and run_id not in home.awaiting:
                others = self._elsewhere(class_queue.request)
                if not any(other.try_lend(queued) for other in others) and not any(
                    other.can_lend(class_queue.request) for other in others
                ):
                    index = len(class_queue.entries)
            walk.go_on(index)

    def _elsewhere(self, request: RequestClass) -> list[PoolCycle]:
        """The other pools that may fit a request class."""
        if request.target.pool is not None:
            return []
        others = (self.pools[key] for key in request.feasibility.pools[1:])
        return [other for other in others if other.can_lend(request)]

    def _refusals(self) -> Iterator[Refusal]:
        """Refuse runs that can never start, and runs that must fail if busy."""
        never: dict[RequestClass, tuple[tuple[Reason, ...], str | None]] = {}
        busy: dict[RequestClass, tuple[Reason, ...]] = {}
        refused = self._index.refused.values()
        for candidate, request in sorted(refused, key=lambda item: _by_submission(item[0])):
            if request not in never:
                never[request] = self.never(request)
            yield _refusal(candidate, CauseCode.NEVER_FITS, *never[request])
        for current in self.pools.values():
            fail_if_busy = current.state.queue.fail_if_busy
            for queued in sorted(fail_if_busy.values(), key=lambda item: _by_submission(item.candidate)):
                if queued.candidate.run_id not in self._placed:
                    exceeded = self.exceeded(queued.candidate, queued.request)
                    if exceeded is None and queued.request not in busy:
                        busy[queued.request] = self.reasons(queued.request)
                    reasons = busy[queued.request] if exceeded is None else (limit_reason(exceeded),)
                    yield _refusal(queued.candidate, CauseCode.BUSY, reasons, None)


def limit_reason(exceeded: Cap) -> Reason:
    """The reason of a run that would exceed a limit."""
    return Reason(code=ReasonCode.LIMIT, text=exceeded.text)


def _by_submission(candidate: Candidate) -> tuple[float, str]:
    return candidate.submitted_at, candidate.run_id


def _refusal(
    candidate: Candidate, code: CauseCode, reasons: tuple[Reason, ...], largest: str | None
) -> Refusal:
    return Refusal(run_id=candidate.run_id, seq=candidate.seq, code=code, reasons=reasons, largest=largest)


class Ledger(FactsIndex):
    """The facts and the plans made from them. Not for use by two threads at once."""

    def plan(self, now: float) -> Plan:
        """Decide one cycle at `now`.

        It changes no fact: the caller records the decisions that it carries out.
        """
        self.wake(now)
        with closing(Cycle(self, now)) as current:
            return current.run()


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
        waiting = _waiting(current)
        if waiting:
            at = min(at, _preemptible_at(state, due.precedence, waiting))
    return at


def _clockwork(current: PoolCycle) -> float:
    """When a turn ends, or a period in which a run may expect a block."""
    state, now = current.state, current.now
    turns_end = (turn_ends_at(holder.holding, state.rules) for holder in state.holders.cycle.values())
    at = min((moment for moment in turns_end if moment > now), default=inf)
    if state.holders.interruptible or INTERRUPTIBLE in state.queue.plain:
        at = min(at, blocks.period_end(state.rules, now))
    return at


def _placed(current: PoolCycle) -> float:
    """When a placement of this cycle could be preempted if it starts at once."""
    rules, now = current.state.rules, current.now
    waiting = len(current.state.queue.runs) > len(current.granted)
    moments = []
    for candidate, _ in current.granted:
        allotted_s = current.placed[candidate.run_id].allotted_s
        if allotted_s is not None and (waiting or candidate.mode is Mode.CYCLE):
            moments.append(now + allotted_s)
        elif waiting and rules.preemption:
            moments.append(now + rules.guaranteed_s)
    return min(moments, default=inf)


def _waiting(current: PoolCycle) -> list[Queued]:
    """The first run that waits for slots in each mode queue, of a fair share in the first ones.

    Later runs of the same queue can preempt no other holdings, except by their level or their block: then the
    first run of each class queue counts.
    """
    queue, past_usage = current.state.queue, current.due.past_usage
    sources: list[ModeQueue | ClassQueue] = list(queue.plain.values())
    if INTERRUPTIBLE in queue.plain or current.state.rules.policy is Policy.LEAST_ATTAINED:
        requests = chain.from_iterable(queue.requests.values())
        sources = [each for request in requests if not request.parked for each in request.plain]
    if past_usage is not None:
        sources += [found for _, _, found in islice(current.state.fair.mode_queues(past_usage), ENTITIES)]
    waiting, decided = list[Queued](), current.placed.keys() | current.awaiting
    for source in sources:
        for key, queued in source.entries:
            if key[-1] not in decided:
                waiting.append(queued)
                break
    return waiting


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
            return at if past_usage is None else _overdrawn_at(state, past_usage, batch, before=at)
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
        key = queued.key
        if (level := level_of(key)) not in firsts or key < firsts[level]:
            firsts[level] = key
    for level, key in firsts.items():
        for climbs in state.holders.rising(level):
            for looked, (at, _, _, climbed) in enumerate(climbs):
                if at >= before:
                    break
                if climbed > key or looked == LOOKED_AT:
                    before = at
                    break
    return before


def _overdrawn_at(
    state: PoolState, past_usage: PastUsage, batch: Sequence[Queued], *, before: float
) -> float:
    """When the usage of an entity exceeds that of the next waiting entity, if not after `before`."""
    entities = {queued.mode_queue.entity for queued in batch if queued.mode_queue.entity is not None}
    floors = sorted((past_usage.of(entity), entity) for entity in entities)
    at = before
    for score, alike in state.fair.alike(state.holders.ready_groups):
        if not floors or past_usage.turns_at(score, alike, floors[0][0]) >= at:
            continue
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
