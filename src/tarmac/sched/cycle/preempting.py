"""Choose the victims of a blocked run: as few as possible, the last in order first. Used by a cycle.

`precedence` decides which holders are candidates; this module orders them, and `victims` selects those that a
run needs. Slots that are being released count as free. Nothing is preempted for a run that would not start by
it.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from math import inf
from typing import Any

from tarmac.sched.cycle.victims import Found, fewest
from tarmac.sched.decisions import Preemption, PreemptionReason, preemption_of
from tarmac.sched.facts import Holding
from tarmac.sched.index.forecast import Holder, left_at
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.index.queues import ModeQueue, Queued, RequestClass, limit_s
from tarmac.sched.placing.space import OPEN
from tarmac.sched.policies import blocks
from tarmac.sched.policies.blocks import Member
from tarmac.sched.policies.fairness import PastUsage, entity_of
from tarmac.sched.policies.order import BATCH, CYCLE, INTERRUPTIBLE, RANKS
from tarmac.sched.policies.precedence import Precedence

MERGED_GROUPS = 64
"""If fewer groups of holdings than this are above a share, only their guaranteed times are looked at."""


SEARCHES = 4
"""The number of searches beyond guaranteed times that are remembered: the board often changes back."""


@dataclass(frozen=True, slots=True)
class PreemptionChoice:
    """The preemptions for a run, and the nodes reserved for it, where it can start at `at`."""

    preemptions: tuple[Preemption, ...]
    nodes: tuple[str, ...]
    at: float


class Preemptor:
    """Chooses the victims of one pool in one cycle.

    `leaving` are holders that this cycle has preempted already. `returning` are the leaving holders that take
    the same slots again for their next turn: only a cycle run can follow them. `again_at` is when a run that
    was refused or must wait here is to be tried again without a change of facts.
    """

    def __init__(
        self,
        state: PoolState,
        precedence: Precedence,
        *,
        leaving: Iterable[Holder] = (),
        returning: Iterable[Holder] = (),
    ) -> None:
        self._state = state
        self._now = precedence.now
        self._past_usage = precedence.past_usage
        self._precedence = precedence
        everybody = [*(state.holdings[run_id] for run_id in sorted(state.leaving)), *leaving]
        self._leaving_ids = {holder.ends[2] for holder in everybody}
        returning_ids = {holder.ends[2] for holder in returning}
        for_good = [holder for holder in everybody if holder.ends[2] not in returning_ids]
        self._leaving = dict.fromkeys(RANKS.values(), for_good) | {CYCLE: everybody}
        self._refused: set[tuple[RequestClass, ModeQueue]] = set()
        self._memo_can_preempt: dict[ModeQueue, bool] = {}
        self._awaited = False
        self.again_at = inf
        self._blocked: list[Queued] = []
        self._usage_before = state.fair.past_usage(precedence.now)
        self._last_first: list[tuple[Any, Holder]] = []
        self._more_before: Iterator[tuple[Any, Holder]] = (
            state.holders.last_first() if self._usage_before is None else self._overdrawn(self._usage_before)
        )

    def can_preempt(self, mode_queue: ModeQueue) -> bool:
        """Whether a run of this mode queue could preempt a holder, or take the slots of one that leaves."""
        if mode_queue not in self._memo_can_preempt:
            self._memo_can_preempt[mode_queue] = self._could(mode_queue)
        return self._memo_can_preempt[mode_queue]

    def preempt(
        self, queued: Queued, *, would_be_kept: Callable[[Sequence[Holder], Collection[str]], bool]
    ) -> PreemptionChoice | None:
        """Choose victims for a run that does not fit the free slots; None if there are none.

        `would_be_kept` tells whether another run takes the nodes as soon as these holders have left.
        """
        request = queued.request
        if (request, queued.mode_queue) in self._refused:
            return None
        found, at = self._find(queued, self._victims(queued)), self._now
        if found is None:
            found, at = self._await_guarded(queued)
        elif self._is_futile(*found) or would_be_kept(*found):
            found = None
        if found is None:
            self._blocked.append(queued)
            self._refused.add((request, queued.mode_queue))
            return None
        victims, nodes = found
        self._leaving_ids.update(holder.ends[2] for holder in victims)
        if self._past_usage is not None and queued.mode_queue.rank == BATCH:
            self._past_usage.charge(queued.candidate, entity_of(queued.candidate, self._state.rules))
        reason, run_id = PreemptionReason.MAKE_WAY, queued.candidate.run_id
        preemptions = tuple(preemption_of(holder.holding, reason, run_id) for holder in victims)
        return PreemptionChoice(preemptions, nodes, at)

    def _could(self, mode_queue: ModeQueue) -> bool:
        holders, rules = self._state.holders, self._state.rules
        if holders.interruptible or (
            self._leaving[mode_queue.rank] and (rules.preemption or mode_queue.rank != BATCH)
        ):
            return True
        if mode_queue.rank == INTERRUPTIBLE or not rules.preemption:
            return False
        if mode_queue.rank == CYCLE:
            return bool(holders.ready)
        if holders.guarded and not self._awaited and self._reserves_at(mode_queue.entries[0][1]) <= self._now:
            return True
        if self._past_usage is None:
            return bool(holders.ready) and holders.ready[-1][0] > mode_queue.entries[0][0]
        floor = self._past_usage.of(mode_queue.entity or "")
        return next(self._after(floor.__le__), None) is not None

    def _find(self, queued: Queued, more: Iterable[Holder]) -> Found | None:
        """The victims and the nodes; None if the run would not start even if all of these left."""
        leaving, ended_at = self._leaving[queued.mode_queue.rank], self._now + limit_s(queued.candidate)
        board = self._state.zones.part(self._state.board, queued.request, ended_at)
        return fewest(queued.request, more, leaving=leaving, board=board)

    def _await_guarded(self, queued: Queued) -> tuple[Found | None, float]:
        """Nodes where a run that has waited long preempts others once their guaranteed time has ended.

        They are reserved for it until then. Otherwise new runs could pass it for ever, each within its
        guaranteed time.
        """
        if self._awaited or self._reserves_at(queued) > self._now:
            return None, inf
        self._awaited = True
        self._memo_can_preempt.clear()
        found = self._find_guarded(queued)
        if found is None:
            return None, inf
        ends = [self._precedence.guaranteed_until(holder.holding) for holder in found[0]]
        at = max((until for until in ends if until < inf), default=self._now)
        self.again_at = min(self.again_at, at)
        return ([], found[1]), at

    def _is_futile(self, victims: Sequence[Holder], nodes: Collection[str]) -> bool:
        """Whether a run that was tried before reserves these nodes by the time the victims have left."""
        leave_at = left_at(victims, self._now)
        for queued in self._blocked:
            if self._now < (until := self._reserves_at(queued)) <= leave_at and not self._awaited:
                found = self._find_guarded(queued)
                if found is not None and not set(nodes).isdisjoint(found[1]):
                    self.again_at = min(self.again_at, until)
                    return True
        return False

    def _find_guarded(self, queued: Queued) -> Found | None:
        """The victims and the nodes of a run if no guaranteed times applied.

        A counted request finds the same as before if the same nodes have free slots, none are reserved, and
        the search would meet the same holders in the same order.
        """
        state, request, met = self._state, queued.request, list[Holder]()
        more = chain(self._here(self._guarded(queued)), self._victims(queued))
        if request.count is None or len(request.demands) > 1 or state.board.reservations:
            return self._find(queued, more)
        zones = state.zones.open_to(request, self._now + limit_s(queued.candidate))
        vacant = [bucket.vacant for bucket in state.board.buckets.values()]
        key = (request, zones, self._leaving[queued.mode_queue.rank], vacant)
        for known, seen, found in state.memo.guarded:
            if known == key:
                end = len(seen) + (found is None)  # without a result it has met all
                met += islice(more, max(0, end - len(met)))
                if met[:end] == seen:
                    return found
        found = self._find(queued, _noted(met, more))
        state.memo.guarded = [(key, met, found), *state.memo.guarded[: SEARCHES - 1]]
        return found

    def _guarded(self, queued: Queued) -> Iterator[Holder]:
        """The holders that a batch run may preempt once their guarantees have ended, the soonest first."""
        holders, groups = self._state.holders, self._state.holders.guarded_groups
        known = islice(holders.guarded, bisect_left(holders.guarded, (inf,)))
        if self._usage_before is None or self._past_usage is None:
            return (holder for _, _, holder, key in known if key > queued.key)
        floor = self._past_usage.of(queued.mode_queue.entity or "")
        above = self._usage_before.overdrawn(self._state.fair.alike(groups), floor)
        if len(above) < MERGED_GROUPS:
            return (holder for _, _, holder in merge(*(groups[group] for group in above)))
        return (holder for _, _, holder, group in known if group in above)

    def _reserves_at(self, queued: Queued) -> float:
        """The time from which nodes are reserved for a run, for one run at a time (inf: never).

        Runs that passed it when it came have had their guaranteed time by then; runs that passed later may
        have.
        """
        rules = self._state.rules
        if queued.mode_queue.rank != BATCH or not rules.preemption:
            return inf
        return queued.candidate.queued_at + 2 * rules.guaranteed_s

    def _victims(self, queued: Queued) -> Iterator[Holder]:
        """The holders that a run may preempt, in order of preemption."""
        rank, holders = queued.mode_queue.rank, self._state.holders
        if holders.interruptible:
            can_preempt = [
                holder
                for holder in holders.interruptible.values()
                if self._precedence.preemptible_at(queued.candidate, holder.holding) <= self._now
            ]
            yield from self._here(sorted(can_preempt, key=self._interruptible_preference))
        if rank == INTERRUPTIBLE or not self._state.rules.preemption:
            return
        if rank == CYCLE:
            yield from self._after(lambda _: True)
        elif self._past_usage is not None:  # a run never preempts its own entity: that leads its queue
            yield from self._after(self._past_usage.of(queued.mode_queue.entity or "").__le__)
        else:
            yield from self._after(queued.key.__lt__)

    def _after(self, is_after: Callable[[Any], bool]) -> Iterator[Holder]:
        """Ready batch runs, the last in order first, as long as they are ordered after a queued run.

        All runs of a cycle share the lookups. Preempted holders leave the list, and those on nodes that the
        cycle has reserved since.
        """
        index, known = 0, self._last_first
        while True:
            if index == len(known):
                known += islice(self._more_before, 1)
            if index == len(known) or not is_after(known[index][0]):
                return
            if known[index][1].ends[2] in self._leaving_ids or not self._is_open(known[index][1]):
                del known[index]
            else:
                yield known[index][1]
                index += 1

    def _is_open(self, holder: Holder) -> bool:
        spaces = self._state.board.spaces
        return any(name in spaces and spaces[name].reserved == OPEN for name in holder.loads)

    def _overdrawn(self, before: PastUsage) -> Iterator[tuple[float, Holder]]:
        """Ready batch runs with the usage of their group, the highest usage first (fair share).

        Usage is that at the beginning of the cycle: placements of the cycle do not count against present
        holders.
        """
        ready = self._state.holders.ready_groups
        for usage, group in self._state.fair.holdings(ready, before):
            yield from ((usage, holder) for _, holder in reversed(ready[group]))

    def _interruptible_preference(self, holder: Holder) -> tuple[int, float, float, str]:
        """Sort key: holders that have had most of their expected time first, then those that lose least."""
        holding = holder.holding
        member = Member(holding.candidate, holding)
        expects = blocks.tier(member, self._state.rules, self._now)
        return -expects, _progress_lost_slot_s(holding, self._now), -holding.granted_at, holder.ends[2]

    def _here(self, holders: Iterable[Holder]) -> Iterator[Holder]:
        return (holder for holder in holders if holder.ends[2] not in self._leaving_ids)


def _noted(met: list[Holder], more: Iterable[Holder]) -> Iterator[Holder]:
    """The holders met so far, and then more, which are noted."""
    yield from tuple(met)
    for holder in more:
        met.append(holder)
        yield holder


def _progress_lost_slot_s(holding: Holding, now: float) -> float:
    """The slot-seconds of work that a run would have to repeat."""
    began = holding.granted_at if holding.started_at is None else holding.started_at
    return holding.allocation.slots * max(0.0, now - max(began, holding.checkpoint_at or began))
