"""Changes that would start a waiting run at once. Used by `explain`.

The ledger plans with a changed run and then restores it, so the answers match the next cycle.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tarmac.model.cluster import NodeState, Policy
from tarmac.model.codec import replace
from tarmac.sched.cycle.cycle import Ledger
from tarmac.sched.decisions import Placement
from tarmac.sched.facts import Candidate, requested_slots
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.placing.admission import Demands, ways_to_shrink
from tarmac.sched.placing.reasons import some
from tarmac.sched.policies.order import BATCH, RANKS

MINUTE_S = 60.0
"""Time limits are reported in whole minutes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision of the next cycle: start the run, preempt others for it, or neither."""

    placement: Placement | None
    giving_way: tuple[str, ...] = ()

    @property
    def helps(self) -> bool:
        """Whether the run would start, now or after preemptions."""
        return self.placement is not None or bool(self.giving_way)


class WhatIf:
    """Questions about one queued run. The ledger is unchanged after each."""

    def __init__(self, ledger: Ledger, candidate: Candidate, now: float) -> None:
        self.candidate = candidate
        self._ledger = ledger
        self._now = now

    def answer_for(self, changed: Candidate) -> Answer:
        """The next plan's decision if the run were changed to this."""
        self._ledger.queue(changed)
        try:
            return self._answer()
        finally:
            self._ledger.queue(self.candidate)

    def with_nodes_up(self, names: Sequence[str]) -> Answer:
        """The next plan's decision if these nodes were up."""
        cluster = self._ledger.cluster()
        chosen = set(names)
        up = tuple(
            replace(node, state=NodeState.UP) if node.name in chosen else node for node in cluster.nodes
        )
        self._ledger.set_cluster(cluster.pools, up)
        try:
            return self._answer()
        finally:
            self._ledger.set_cluster(cluster.pools, cluster.nodes)

    def _answer(self) -> Answer:
        run_id = self.candidate.run_id
        plan = self._ledger.plan(self._now)
        placement = next((item for item in plan.placements if item.run_id == run_id), None)
        going = (item.run_id for item in plan.preemptions if item.for_run_id == run_id)
        leaving = tuple(self._ledger.candidate(gone).label for gone in going)
        return Answer(placement, leaving)


@dataclass(frozen=True, slots=True)
class Smaller:
    """A smaller request of a run, and its description."""

    demands: Demands
    words: str


def ways_out(
    ledger: Ledger, candidate: Candidate, now: float, smaller: Sequence[Smaller], gaps_s: Sequence[float]
) -> Iterator[str]:
    """The changes that would start the run at once, in sentences.

    It tries the `smaller` requests, and to end within the `gaps_s`: the seconds until reservations begin.
    """
    what_if = WhatIf(ledger, candidate, now)
    if nodes := _undrained(ledger, what_if):
        yield f"It would start at once after `tarmac nodes undrain {' '.join(nodes)}`."
    for constraint, relaxed in _relaxations(candidate):
        if what_if.answer_for(relaxed).placement is not None:
            yield f"Without {constraint} it would start at once."
    home = ledger.home(candidate.run_id)
    if home is not None and home.rules.policy is Policy.PRIORITY and RANKS[candidate.mode] == BATCH:
        yield from _promoted(what_if, _priorities(home))
    yield from _shortened(what_if, gaps_s)
    for less in smaller:
        if what_if.answer_for(replace(candidate, demands=less.demands)).placement is not None:
            yield f"With {less.words} it would start at once."
            break


def smaller_requests(demands: Demands, most_slots: int, fits: Callable[[Demands], bool]) -> Iterator[Smaller]:
    """The biggest request that `fits` of each way to ask for less of one role alone.

    The ways that change the run least come first: the biggest role, and fewer replicas (or slots in all)
    before smaller replicas. No role asks for more than `most_slots` slots.
    """
    for way in ways_to_shrink(demands):
        requests = [
            Smaller(way.request(amount), way.words(amount))
            for amount in range(way.amount - 1, 0, -1)
            if requested_slots((way.change(amount),)) <= most_slots
        ]
        found = _first(requests, fits, step_by_step=len(demands) == 1 and demands[0].slots is not None)
        if found is not None:
            yield found


def _first(
    requests: Sequence[Smaller], fits: Callable[[Demands], bool], *, step_by_step: bool
) -> Smaller | None:
    """The first request that fits.

    Step by step tries all: of slots split evenly, 6 may fit where 5 do not.
    """
    if step_by_step:
        return next((less for less in requests if fits(less.demands)), None)
    index = bisect_left(range(len(requests)), True, key=lambda item: fits(requests[item].demands))
    return requests[index] if index < len(requests) else None


def _undrained(ledger: Ledger, what_if: WhatIf) -> list[str]:
    """The drained nodes that it would start on if only they were undrained."""
    drained = [node.name for node in ledger.cluster().nodes if node.state is NodeState.DRAINED]
    if not drained:
        return []
    placement = what_if.with_nodes_up(drained).placement
    if placement is None:
        return []
    used = [name for name in placement.allocation.nodes if name in set(drained)]
    return used if used and what_if.with_nodes_up(used).placement is not None else drained


def _relaxations(candidate: Candidate) -> Iterator[tuple[str, Candidate]]:
    """The run without one of its constraints, with that constraint in words."""
    target = candidate.target
    if target.hostnames:
        yield "its host names", replace(candidate, target=replace(target, hostnames=()))
    if target.excluded:
        yield "the hosts it keeps away from", replace(candidate, target=replace(target, excluded=()))
    if target.shard is not None:
        yield f"shard {target.shard!r}", replace(candidate, target=replace(target, shard=None))
    pool = candidate.pool or target.pool
    if pool is not None:
        yield f"pool {pool!r}", replace(candidate, pool=None, target=replace(target, pool=None))
    types = sorted({demand.each.slot_type for demand in candidate.demands if demand.each.slot_type})
    if types:
        any_type = tuple(
            replace(demand, each=replace(demand.each, slot_type=None)) for demand in candidate.demands
        )
        yield f"slot type {' and '.join(types)}", replace(candidate, demands=any_type)


def _shortened(what_if: WhatIf, gaps_s: Sequence[float]) -> Iterator[str]:
    """The longest time limit with which it would end before a reservation begins."""
    candidate = what_if.candidate
    for gap_s in sorted(set(gaps_s), reverse=True):
        limit_s = (candidate.ran_s + gap_s) // MINUTE_S * MINUTE_S
        if limit_s <= candidate.ran_s or (
            candidate.time_limit_s is not None and candidate.time_limit_s <= limit_s
        ):
            continue
        if what_if.answer_for(replace(candidate, time_limit_s=limit_s)).placement is not None:
            yield f"With a time limit of {limit_s / MINUTE_S:.0f} min it would start at once."
            return


def _priorities(home: PoolState) -> list[int]:
    """The priorities of the waiting and holding batch runs of a pool."""
    waiting = (queued.candidate for queued in home.queue.runs.values())
    holding = (holder.holding.candidate for holder in home.holdings.values())
    return sorted(
        {candidate.priority for candidate in (*waiting, *holding) if RANKS[candidate.mode] == BATCH}
    )


def _promoted(what_if: WhatIf, priorities: Sequence[int]) -> Iterator[str]:
    """The smallest priority that starts it, and the smallest with which other runs are preempted for it."""
    own = what_if.candidate.priority
    levels = sorted({level for near in priorities for level in (near, near + 1) if level > own})
    answers: dict[int, Answer] = {}

    def answer(level: int) -> Answer:
        if level not in answers:
            answers[level] = what_if.answer_for(replace(what_if.candidate, priority=level, position=None))
        return answers[level]

    at_once = _lowest(levels, lambda level: answer(level).placement is not None)
    if at_once is not None:
        yield f"With priority {at_once} it would start at once."
    by_force = _lowest(levels, lambda level: answer(level).helps)
    if by_force is not None and (at_once is None or by_force < at_once):
        leaving = answer(by_force).giving_way
        have = "has" if len(leaving) == 1 else "have"
        yield f"With priority {by_force} it would start once {some(leaving)} {have} been preempted."


def _lowest(levels: Sequence[int], works: Callable[[int], bool]) -> int | None:
    """The lowest level that works, by bisection: if a level works, every higher one does."""
    if not levels or not works(levels[-1]):
        return None
    return levels[bisect_left(range(len(levels) - 1), True, key=lambda index: works(levels[index]))]
