"""The cluster simulated from now on without new submissions: plan, apply, advance.

Used by `estimates`. It plans on a copy of the facts with the same `Ledger` that runs the cluster. It applies
a plan to the facts as `control` and an engine would: holdings begin, leave, and return to the queue.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import inf, nextafter

from tarmac.model.changes import UsageBucket
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Share
from tarmac.sched.cycle.cycle import Ledger
from tarmac.sched.decisions import Placement, Plan, Preemption
from tarmac.sched.facts import Candidate, Holding, Snapshot
from tarmac.sched.policies.blocks import Member


class EstimateBasis(StrEnum):
    """How the ends are known that an estimate depends on."""

    TIME_LIMITS = "time limits"  # all that it waits for ends by a time limit or a turn
    HISTORY = "history"  # some of it ends as similar runs did
    UNKNOWN = "unknown"  # something that it waits for has neither a limit nor a history
    CLUSTER = "cluster"  # the cluster has its own queue and reports it
    TOO_FAR = "too far"  # too many runs are ahead for an estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """When a queued run starts if nothing else is submitted.

    `start_at` is the likely time; `latest_at` the time by which it starts if every time limit is used up
    (None: something that it waits for has no limit). Both are None if `basis` says that nothing is known.
    """

    run_id: str
    start_at: float | None
    latest_at: float | None
    basis: EstimateBasis


RESOLUTION = 0.01
"""One cycle plans for all events within this share of the time simulated so far.

So the number of cycles grows with the logarithm of the time, for any number of ending runs.
"""

PASSES_IN_A_ROW = 6
"""The most cycles at one time. A cycle that decides something changes facts, so that another follows."""


@dataclass(frozen=True, slots=True)
class End:
    """How much longer a run holds its slots (inf: unknown), and how that is known."""

    in_s: float
    basis: EstimateBasis


Predict = Callable[[Candidate, float], End]
"""The end of a run that has run this many seconds."""

_DOUBT = list(EstimateBasis)
"""From the most certain basis to the least."""


def least_certain(bases: Iterable[EstimateBasis]) -> EstimateBasis:
    """The least certain of these bases; time limits if there are none."""
    return max(bases, key=_DOUBT.index, default=EstimateBasis.TIME_LIMITS)


class Simulation:
    """A ledger of its own and the simulated time.

    `starts` are the runs that got slots since, with the time and its basis; `refused` the runs that ended
    without.
    """

    def __init__(
        self,
        facts: Snapshot,
        now: float,
        predict: Predict,
        *,
        leaving_s: float = inf,
        resolution: float = RESOLUTION,
    ) -> None:
        """A leaving run takes `leaving_s`, but no longer than its grace."""
        self.now = now
        self.starts: dict[str, tuple[float, EstimateBasis]] = {}
        self.refused: set[str] = set()
        self._new: list[str] = []
        self._began_at = now
        self._leaving_s = leaving_s
        self._resolution = resolution
        self._predict = predict
        self._ledger = Ledger(facts)
        self._queue = {candidate.run_id: candidate for candidate in facts.queue}
        self._waiters: dict[str, list[str]] = {}
        for candidate in facts.queue:
            for awaited in candidate.awaits:
                self._waiters.setdefault(awaited, []).append(candidate.run_id)
        self._over_limit: dict[str, list[str]] = {}
        for candidate in sorted(facts.queue, key=lambda each: each.run_id, reverse=True):
            if candidate.over_limit and candidate.group is not None:
                self._over_limit.setdefault(candidate.group, []).append(candidate.run_id)
        self._holdings: dict[str, Holding] = {}
        self._ends: list[tuple[float, str, int]] = []
        self._grants = Counter[str]()
        self._bases: dict[str, EstimateBasis] = {}
        self._known: dict[str, EstimateBasis] = {}
        for holding in facts.holdings:
            self._take_up(holding, EstimateBasis.TIME_LIMITS)

    def step(self) -> bool:
        """Apply all decisions of this moment and advance to the next; False if nothing more happens."""
        for _ in range(PASSES_IN_A_ROW):
            plan = self._ledger.plan(self.now)
            if not (plan.placements or plan.preemptions or plan.refusals or plan.shares):
                break
            self._carry_out(plan)
        return self._advance(plan.next_at)

    def newly_started(self) -> list[str]:
        """The runs that started since the last call."""
        new, self._new = self._new, []
        return new

    def _carry_out(self, plan: Plan) -> None:
        for refusal in plan.refusals:
            self.refused.add(refusal.run_id)
            self._queue.pop(refusal.run_id, None)
            self._ledger.forget(refusal.run_id)
        for grant in plan.shares:
            self._grant(grant.run_id, grant.share)
        for preemption in plan.preemptions:
            self._preempt(preemption)
        for placement in plan.placements:
            self._start(placement)

    def _start(self, placement: Placement) -> None:
        candidate = self._queue.pop(placement.run_id)
        basis = least_certain(self._known[node] for node in placement.allocation.nodes if node in self._known)
        if placement.run_id not in self.starts:
            self.starts[placement.run_id] = (self.now, basis)
            self._new.append(placement.run_id)
        holding = Holding(
            candidate=replace(candidate, attempts=candidate.attempts + 1),
            allocation=placement.allocation,
            granted_at=self.now,
            started_at=self.now,
            allotted_s=placement.allotted_s,
        )
        self._ledger.hold(holding)
        self._take_up(holding, basis)

    def _take_up(self, holding: Holding, basis: EstimateBasis) -> None:
        """Predict the end of a holding. `basis` is how its beginning is known."""
        run_id = holding.candidate.run_id
        self._holdings[run_id] = holding
        if holding.leaving:
            self._end_at(run_id, self.now + min(holding.grace_s, self._leaving_s), basis)
            return
        ran_s = holding.candidate.ran_s
        if holding.started_at is not None:
            ran_s += max(0.0, self.now - holding.started_at)
        end = self._predict(holding.candidate, ran_s)
        if end.in_s < inf:
            self._end_at(run_id, self.now + end.in_s, least_certain((basis, end.basis)))
        else:
            self._grants[run_id] += 1

    def _end_at(self, run_id: str, at: float, basis: EstimateBasis) -> None:
        self._grants[run_id] += 1
        self._bases[run_id] = basis
        heapq.heappush(self._ends, (at, run_id, self._grants[run_id]))

    def _preempt(self, preemption: Preemption) -> None:
        holding = self._holdings[preemption.run_id]
        holding = replace(holding, leaving=True, requeues=True, leave_requested_at=self.now)
        self._ledger.hold(holding)
        self._take_up(holding, self._bases.get(preemption.run_id, EstimateBasis.TIME_LIMITS))

    def _advance(self, next_at: float | None) -> bool:
        """Advance to the next event, and apply all events near it."""
        while self._ends and self._grants[self._ends[0][1]] != self._ends[0][2]:
            heapq.heappop(self._ends)  # the end of an earlier grant
        first_at = min(self._ends[0][0] if self._ends else inf, inf if next_at is None else next_at)
        if first_at == inf:
            return False
        first_at = max(first_at, nextafter(self.now, inf))
        until = first_at + self._resolution * (first_at - self._began_at)
        self.now = first_at
        while self._ends and self._ends[0][0] <= until:
            at, run_id, grant = heapq.heappop(self._ends)
            if self._grants[run_id] == grant:
                self.now = max(self.now, at)
                self._end(run_id)
        return True

    def _end(self, run_id: str) -> None:
        """Free the slots of a holding; a preempted run queues again."""
        holding = self._holdings.pop(run_id)
        basis = self._bases.pop(run_id)
        for node in holding.allocation.nodes:
            self._known[node] = least_certain((self._known.get(node, basis), basis))
        self._ledger.add_usage([self._usage(holding)])
        last_turn = holding.candidate.mode is Mode.CYCLE and holding.candidate.turns_left <= 1
        if holding.requeues and not last_turn:
            self._requeue(self._come_back(holding))
        else:
            self._ledger.forget(run_id)
            self._release_waiters(run_id)
            self._release_next(holding.candidate.group)

    def _requeue(self, candidate: Candidate) -> None:
        """Add or replace a queued run."""
        self._queue[candidate.run_id] = candidate
        self._ledger.queue(candidate)

    def _release_waiters(self, ended: str) -> None:
        """Remove an ended run from the dependencies of others, which are taken to be met."""
        for run_id in self._waiters.pop(ended, ()):
            candidate = self._queue.get(run_id)
            if candidate is not None:
                left = tuple(each for each in candidate.awaits if each != ended)
                self._requeue(replace(candidate, awaits=left))

    def _release_next(self, group: str | None) -> None:
        """Release the next member of a group after another has ended."""
        waiting = self._over_limit.get(group) if group is not None else None
        while waiting:
            run_id = waiting.pop()
            if run_id in self._queue:
                self._requeue(replace(self._queue[run_id], over_limit=None))
                return

    def _come_back(self, holding: Holding) -> Candidate:
        """The candidate of a preempted holding, with its usage counted."""
        candidate, age_s = holding.candidate, self.now - holding.granted_at
        started_at = self.now if holding.started_at is None else holding.started_at
        share = candidate.share
        if share is not None:
            used_s = Member(candidate, holding).running_s(share.period_at, self.now)
            share = replace(share, used_s=share.used_s + used_s)
        return replace(
            candidate,
            queued_at=self.now,
            attained_slot_s=candidate.attained_slot_s + holding.allocation.slots * age_s,
            ran_s=candidate.ran_s + max(0.0, self.now - started_at),
            share=share,
            turns_left=candidate.turns_left - (candidate.mode is Mode.CYCLE),
        )

    def _usage(self, holding: Holding) -> UsageBucket:
        candidate, used_s = holding.candidate, self.now - holding.granted_at
        return UsageBucket(
            cluster=holding.allocation.cluster,
            pool=holding.allocation.pool,
            user=candidate.owner,
            project=candidate.project,
            group=candidate.group or "",
            hour_at=self.now,
            slot_s=holding.allocation.slots * used_s / candidate.weight,
        )

    def _grant(self, run_id: str, share: Share) -> None:
        if run_id in self._queue:
            self._requeue(replace(self._queue[run_id], share=share))
        elif run_id in self._holdings:
            holding = self._holdings[run_id]
            holding = replace(holding, candidate=replace(holding.candidate, share=share))
            self._holdings[run_id] = holding
            self._ledger.hold(holding)
