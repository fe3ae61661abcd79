"""The next decision on one run, and the reason of every node. Called by `control` for `tarmac why`.

It runs the cycle itself and stops it at the run, so the explanation matches `plan`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice, takewhile
from math import inf

from tarmac.model.changes import HOUR_S
from tarmac.model.cluster import Policy
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.resources import Reason, ReasonCode
from tarmac.sched.cycle.cycle import Cycle, Ledger, limit_reason
from tarmac.sched.cycle.pool_cycle import PoolCycle
from tarmac.sched.cycle.queue_walk import walk_queue
from tarmac.sched.decisions import Placement, Plan, Refusal, Waiting
from tarmac.sched.explain.whatif import Smaller, smaller_requests, ways_out
from tarmac.sched.facts import Candidate, Snapshot
from tarmac.sched.index.forecast import Forecast, awaited
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.index.queues import RequestClass, limit_s
from tarmac.sched.placing.admission import Demands
from tarmac.sched.placing.reasons import NAMES_SHOWN, counted, duration, grouped, some, weighs
from tarmac.sched.policies.blocks import Member, Tier, left_s, period_end, tier
from tarmac.sched.policies.order import guessed_slot_s, level


def explain(facts: Ledger | Snapshot, run_id: str, now: float) -> Waiting | Refusal | Placement:
    """The next cycle's decision on this queued run; raises KeyError if it is not queued.

    A ledger is unchanged afterwards.
    """
    ledger = facts if isinstance(facts, Ledger) else Ledger(facts)
    plan = ledger.plan(now)
    if run_id in ledger.deferred:
        return _deferred(ledger.candidate(run_id), now)
    candidate, request = _queued(ledger, run_id)
    decisions: tuple[Placement | Refusal, ...] = (*plan.placements, *plan.refusals)
    for decision in decisions:
        if decision.run_id == run_id:
            return decision
    return _waiting(ledger, candidate, request, plan, now)


def _deferred(candidate: Candidate, now: float) -> Waiting:
    """A run that waits for other runs to end, or for its pause after a failure."""
    if candidate.awaits:
        reason = Reason(code=ReasonCode.AWAITS, text="it starts after other runs have ended")
    elif candidate.over_limit:
        reason = Reason(code=ReasonCode.GROUP_LIMIT, text=candidate.over_limit)
    else:
        assert candidate.not_before is not None, "what rests has a time at which it wakes"
        pause = duration(candidate.not_before - now)
        reason = Reason(code=ReasonCode.RESTS, text=f"it may start again in {pause}")
    return Waiting(run_id=candidate.run_id, seq=candidate.seq, reasons=(reason,), awaits=candidate.awaits)


def _queued(ledger: Ledger, run_id: str) -> tuple[Candidate, RequestClass]:
    home = ledger.home(run_id)
    if home is not None:
        queued = home.queue.runs[run_id]
        return queued.candidate, queued.request
    return ledger.refused[run_id] if run_id in ledger.refused else ledger.unassigned[run_id]


def _waiting(ledger: Ledger, candidate: Candidate, request: RequestClass, plan: Plan, now: float) -> Waiting:
    with closing(Cycle(ledger, now)) as current:
        case = _Case(ledger, current, plan, candidate, request)
        ahead, ahead_first = case.ahead(), tuple(islice(case.first_ahead(), NAMES_SHOWN))
        awaits, sentences = case.awaits(), list(case.sentences())
        reasons = grouped(current.reasons(request, run_id=candidate.run_id))
        smaller, gaps_s = case.smaller(), case.gaps_s()
        exceeded = current.exceeded(candidate, request)
    if exceeded is not None:
        reasons, sentences, gaps_s = (limit_reason(exceeded),), [f"{exceeded.raised_by}."], []
    sentences += ways_out(ledger, candidate, now, smaller, gaps_s)
    return Waiting(
        run_id=candidate.run_id,
        seq=candidate.seq,
        ahead=ahead,
        ahead_first=ahead_first,
        awaits=tuple(awaits),
        reasons=reasons,
        unblocked_by=" ".join(sentences),
    )


class _Case:
    """One waiting run, and a cycle stopped at its turn in its home pool."""

    def __init__(
        self, ledger: Ledger, current: Cycle, plan: Plan, candidate: Candidate, request: RequestClass
    ) -> None:
        self._ledger = ledger
        self._current = current
        self._leaving = [item.run_id for item in plan.preemptions if item.for_run_id == candidate.run_id]
        self._candidate = candidate
        self._request = request
        self._home: PoolCycle | None = current.stop_at(candidate.run_id)
        if request.target.pool is None:
            for key in request.feasibility.pools[1:]:
                walk_queue(current.enter(key))
        self._forecast: Forecast | None = (
            None if self._home is None else self._home.forecast(request, limit_s(candidate))
        )

    def ahead(self) -> int:
        """The number of waiting runs ordered before it."""
        home = self._home
        if home is None:
            return 0
        runs = home.state.queue.runs
        own = runs[self._candidate.run_id]
        gone = runs.keys() & {*home.placed, *home.state.queue.fail_if_busy}
        return home.before(own) - sum(home.place(runs[run_id]) < home.place(own) for run_id in gone)

    def first_ahead(self) -> Iterator[str]:
        """The waiting runs ordered before it, in order."""
        home = self._home
        if home is None:
            return
        own = self._candidate.run_id
        fail_if_busy = home.state.queue.fail_if_busy
        for queued in takewhile(lambda item: item.candidate.run_id != own, home.in_order()):
            run_id = queued.candidate.run_id
            if run_id not in home.placed and run_id not in fail_if_busy:
                yield run_id

    def awaits(self) -> list[str]:
        """The runs that have to end or be preempted before it starts, as far as is known."""
        if self._leaving or self._home is None or self._forecast is None:
            return self._leaving
        found = awaited(self._forecast, self._home.state.releases)
        return [holder.ends[2] for holder in found if any(map(weighs, holder.loads.values()))]

    def sentences(self) -> Iterator[str]:
        """The events that it waits for, then the promises of its mode."""
        yield self._awaited()
        if self._home is not None:
            yield from _expectations(self._candidate, self._home.state, self._current.now)

    def smaller(self) -> list[Smaller]:
        """Smaller requests that fit the free slots here."""

        def fits(demands: Demands) -> bool:
            return self._current.starts_now(replace(self._candidate, demands=demands))

        most_slots = max((pool.state.board.free[None] for pool in self._pools()), default=0)
        return list(smaller_requests(self._candidate.demands, most_slots, fits))

    def gaps_s(self) -> list[float]:
        """The times until reservations of others begin here."""
        pools = self._pools()
        begins = [item.at for pool in pools for item in pool.reservations]
        begins += [at for pool in pools for at in pool.state.zones.limits(self._request.standing)]
        return [at - self._current.now for at in begins if at < inf]

    def _pools(self) -> list[PoolCycle]:
        return [self._current.enter(key) for key in self._request.feasibility.pools]

    def _awaited(self) -> str:
        if self._leaving:
            return f"It starts when {self._ended(self._leaving, 'been preempted')}."
        home, forecast = self._home, self._forecast
        reserving = self._named(sorted(item.run_id for item in home.reservations) if home is not None else ())
        if home is None or (forecast is None and not home.state.possible(self._request)):
            if self._ledger.admission.silent(self._request.target):
                return "It starts when its cluster reports nodes that take it."
            return "It starts when enough of the nodes above take work again."
        runs = self.awaits()
        if forecast is None or not runs:
            if reserving:
                return f"It starts after {some(reserving)}, for which nodes are reserved."
            if barred := self._barred():
                return barred
            return "It fits what is free: it starts with one of the next scheduling cycles."
        sentence = f"It starts when {self._ended(runs, 'ended')}"
        if self._current.now < forecast.at < inf:
            sentence += f", in {duration(forecast.at - self._current.now)} at the latest"
        return sentence + (
            f", and after {some(reserving)}, for which nodes are reserved." if reserving else "."
        )

    def _barred(self) -> str | None:
        """The reservation of nodes that ends first of those that keep it out."""
        ended_at = self._current.now + limit_s(self._candidate)
        found = (pool.state.barriers(self._request.standing, ended_at) for pool in self._pools())
        first = min((each for pool in found for _, each in pool), key=lambda each: each.end_at, default=None)
        left = None if first is None else duration(first.end_at - self._current.now)
        return None if first is None else f"Reservation {first.name} ends in {left}."

    def _ended(self, run_ids: Sequence[str], what: str) -> str:
        return f"{some(self._named(run_ids))} {'has' if len(run_ids) == 1 else 'have'} {what}"

    def _named(self, run_ids: Iterable[str]) -> list[str]:
        return [self._ledger.candidate(run_id).label for run_id in run_ids]


def _expectations(candidate: Candidate, home: PoolState, now: float) -> Iterator[str]:
    """The expectations as sentences; for a batch run, whether its place follows from a guess."""
    guess_slot_s = guessed_slot_s(candidate)
    if home.rules.policy is Policy.LEAST_ATTAINED and level(guess_slot_s) > level(candidate.attained_slot_s):
        used, guess = (f"{slot_s / HOUR_S:.1f}" for slot_s in (candidate.attained_slot_s, guess_slot_s))
        yield f"It has used {used} slot-hours, and is ordered as if {guess}: by what runs like it used."
    if candidate.mode is Mode.CYCLE:
        yield from _turns(candidate, home)
    elif candidate.mode is Mode.INTERRUPTIBLE:
        yield _block(candidate, home, now)
        yield f"The next period begins in {duration(period_end(home.rules, now) - now)}."


def _turns(candidate: Candidate, home: PoolState) -> Iterator[str]:
    """The number of cycle runs with their turn first: the holding ones, and those before it in line."""
    own = home.queue.runs[candidate.run_id]
    waiting = own.mode_queue.before(own.key)
    holding = sum(holder.holding.candidate.mode is Mode.CYCLE for holder in home.holdings.values())
    if holding:
        yield f"{counted(holding, 'cycle run')} {'has its turn' if holding == 1 else 'have their turns'} now."
    if waiting:
        yield f"{counted(waiting, 'cycle run')} in line before it."
    yield f"A turn lasts {duration(home.rules.turn_s)}."


def _block(candidate: Candidate, home: PoolState, now: float) -> str:
    """The promised time of the run in this period, and the rest of it."""
    share = candidate.share
    left = duration(left_s(candidate, home.rules, now))
    match tier(Member(candidate), home.rules, now):
        case Tier.OWED if share is not None:
            owed = f", and {duration(share.credit_s)} of credit" if share.credit_s else ""
            return f"Of its block of {duration(share.allotted_s)} in this period it has {left} left{owed}."
        case Tier.CREDIT:
            return f"Its block of this period is used, and {left} of its credit is left."
        case _ if share is None:
            return (
                "It came after this period was shared out: until the next it starts where no other run does."
            )
        case _:
            return "Its block of this period is used: until the next it starts where no other run does."
