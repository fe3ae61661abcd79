"""A small cluster lived through in virtual time: the plans of a `Ledger` are carried out as facts.

What `control` and an engine do is told here in the shortest way: a run that is placed starts at once, one
that is asked to leave does so after `leave_s`, and then queues again; a run ends when it has run its time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import Node, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.sched import (
    Candidate,
    Holding,
    Ledger,
    Plan,
    Preemption,
    PreemptionReason,
    Snapshot,
)


@dataclass(frozen=True)
class Stay:
    """A run held slots from then to then."""

    run_id: str
    began_at: float
    ended_at: float
    slots: int
    nodes: tuple[str, ...] = ()


class Living:
    """The life of a cluster with one pool.

    `submissions` are (time, candidate, duration); `turns` is after how many turns a cycle run ends. With
    `doubting`, every plan is held against that of a ledger made from a snapshot.
    """

    def __init__(
        self,
        where: Iterable[Node],
        rules: Pool,
        submissions: Iterable[tuple[float, Candidate, float]],
        *,
        leave_s: float = 0.0,
        turns: int = 3,
        doubting: bool = False,
    ) -> None:
        self.rules = rules
        self.ledger = Ledger(Snapshot(pools=(rules,), nodes=tuple(where), queue=(), holdings=()))
        self.leave_s = leave_s
        self.turns = turns
        self.doubting = doubting
        self.coming = sorted(submissions, key=lambda item: (item[0], item[1].run_id), reverse=True)
        self.came_at = {run.run_id: at for at, run, _ in self.coming}
        self.left_s = {run.run_id: duration_s for _, run, duration_s in self.coming}
        self.now = self.coming[-1][0] if self.coming else 0.0
        self.queue: dict[str, Candidate] = {}
        self.holdings: dict[str, Holding] = {}
        self.leaves_at: dict[str, float] = {}
        self.had_turns: dict[str, int] = {}
        self.ended: dict[str, float] = {}
        self.refused: set[str] = set()
        self.first_start: dict[str, float] = {}
        self.starts: list[tuple[float, str]] = []
        self.preemptions: list[tuple[float, Preemption, Holding]] = []
        self.stays: list[Stay] = []
        self.plans = 0
        self.next_at: float | None = None

    def run(self, until: float = inf, *, passes: int = 20_000) -> Living:
        """Live until then, or until nothing happens any more."""
        while True:
            self._arrive()
            self._plan()
            moment = self._next()
            if moment is None or moment > until:
                self.now = min(until, self.now if moment is None else moment) if until < inf else self.now
                return self
            assert self.plans < passes, f"still going on after {passes} passes at {self.now}"
            self.now = moment
            self._leave()

    def slots_held(self, at: float) -> int:
        """How many slots were held at a moment that is over."""
        return sum(stay.slots for stay in self.stays if stay.began_at <= at < stay.ended_at)

    def held_s(self, run_id: str, begin: float, end: float) -> float:
        """How long a run held slots between two moments."""
        running = self.holdings.get(run_id)
        stays = [stay for stay in self.stays if stay.run_id == run_id]
        if running is not None:
            stays.append(Stay(run_id, running.granted_at, self.now, 0))
        return sum(max(0.0, min(end, stay.ended_at) - max(begin, stay.began_at)) for stay in stays)

    def queued_before(self, run_id: str, at: float) -> float:
        """When a run queued that started at `at`: it came, or had held slots until then."""
        left = [stay.ended_at for stay in self.stays if stay.run_id == run_id and stay.ended_at <= at]
        return max(left, default=self.came_at[run_id])

    # what happens

    def _arrive(self) -> None:
        while self.coming and self.coming[-1][0] <= self.now:
            at, run, _ = self.coming.pop()
            self._queue(replace(run, submitted_at=at, queued_at=at, turns_left=self.turns))

    def _plan(self) -> None:
        for _ in range(3):
            plan = self.ledger.plan(self.now)
            self.plans += 1
            if self.doubting:
                fresh = Ledger(self.ledger.snapshot())
                assert fresh.plan(self.now) == plan, "a fresh ledger decides the same"
            self._carry_out(plan)
            self.next_at = plan.next_at
            if not plan.shares:
                break

    def _carry_out(self, plan: Plan) -> None:
        for refusal in plan.refusals:
            self.refused.add(refusal.run_id)
            self.queue.pop(refusal.run_id)
            self.ledger.forget(refusal.run_id)
        for grant in plan.shares:
            if grant.run_id in self.queue:
                self._queue(replace(self.queue[grant.run_id], share=grant.share))
            else:
                holding = self.holdings[grant.run_id]
                self._hold(replace(holding, candidate=replace(holding.candidate, share=grant.share)))
        for preemption in plan.preemptions:
            holding = self.holdings[preemption.run_id]
            assert not holding.leaving, "nobody is asked twice"
            self.preemptions.append((self.now, preemption, holding))
            if preemption.reason is PreemptionReason.TURN_OVER:
                self.had_turns[preemption.run_id] = self.had_turns.get(preemption.run_id, 0) + 1
            self.leaves_at[preemption.run_id] = self.now + self.leave_s
            self._hold(replace(holding, leaving=True, requeues=True))
        for placement in plan.placements:
            candidate = self.queue.pop(placement.run_id)
            self.starts.append((self.now, placement.run_id))
            self.first_start.setdefault(placement.run_id, self.now)
            self._hold(
                Holding(
                    candidate=candidate,
                    allocation=placement.allocation,
                    granted_at=self.now,
                    started_at=self.now,
                    checkpoint_at=None,
                    leaving=False,
                    grace_s=self.leave_s,
                )
            )

    def _next(self) -> float | None:
        moments = [self._ends_at(run_id) for run_id in self.holdings]
        moments += [self.coming[-1][0]] if self.coming else []
        moments += [self.next_at] if self.next_at is not None else []
        return min((max(moment, self.now) for moment in moments if moment < inf), default=None)

    def _leave(self) -> None:
        due = [(self._ends_at(run_id), run_id) for run_id in self.holdings]
        heapq.heapify(due)
        while due and due[0][0] <= self.now:
            self._end(heapq.heappop(due)[1])

    def _ends_at(self, run_id: str) -> float:
        holding = self.holdings[run_id]
        done_at = (holding.started_at or 0.0) + self.left_s[run_id]
        return min(done_at, self.leaves_at.get(run_id, inf))

    def _end(self, run_id: str) -> None:
        holding = self.holdings.pop(run_id)
        candidate, slots = holding.candidate, holding.allocation.slots
        held_s = self.now - holding.granted_at
        self.left_s[run_id] -= held_s
        self.stays.append(Stay(run_id, holding.granted_at, self.now, slots, holding.allocation.nodes))
        self.leaves_at.pop(run_id, None)
        usage = UsageBucket(
            cluster=holding.allocation.cluster,
            pool=self.rules.name,
            user=candidate.owner,
            project=candidate.project,
            group=candidate.group or "",
            hour_at=self.now,
            slot_s=slots * held_s / candidate.weight,
        )
        self.ledger.add_usage([usage])
        turned = candidate.mode is Mode.CYCLE and self.had_turns.get(run_id, 0) >= self.turns
        if self.left_s[run_id] <= 1e-9 or turned:
            self.ended[run_id] = self.now
            self.ledger.forget(run_id)
            return
        share = candidate.share
        if share is not None:
            used_s = max(0.0, self.now - max(holding.granted_at, share.period_at))
            share = replace(share, used_s=share.used_s + used_s)
        self._queue(
            replace(
                candidate,
                seq=candidate.seq + 1,
                queued_at=self.now,
                attempts=candidate.attempts + 1,
                attained_slot_s=candidate.attained_slot_s + slots * held_s,
                ran_s=candidate.ran_s + held_s,
                share=share,
                turns_left=self.turns - self.had_turns.get(run_id, 0),
            )
        )

    def _queue(self, candidate: Candidate) -> None:
        self.queue[candidate.run_id] = candidate
        self.ledger.queue(candidate)

    def _hold(self, holding: Holding) -> None:
        self.holdings[holding.candidate.run_id] = holding
        self.ledger.hold(holding)
