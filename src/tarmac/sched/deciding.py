"""What becomes of each candidate of a pass: `Pass.decide`. Used by `planning` and `explain`.

Candidates that ask for the same share a `Kind`: once one of a kind does not fit, the others are passed over
at the cost of a lookup, because nothing comes free during a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from tarmac.model.run import Allocation, CauseCode
from tarmac.model.spec import Queueing, Target
from tarmac.sched.admission import Admission, Demands, Verdict, pools_for
from tarmac.sched.board import Board, PoolBoard, PoolKey
from tarmac.sched.decisions import Placement, Reason, Refusal
from tarmac.sched.facts import Candidate, Holding, Snapshot
from tarmac.sched.fitting import Part
from tarmac.sched.forecast import Forecast, releases, soonest
from tarmac.sched.gangs import allot, fit
from tarmac.sched.reasons import why_never, why_not_now
from tarmac.sched.view import View

PATIENCE_S = 600.0
"""How long a queued run lets later ones pass it; then the nodes where it can start soonest are kept for it.

Until then a smaller later run may take what a bigger one cannot use yet (M3). From then on nothing that
could delay it starts on those nodes, so it starts at the latest when what holds them now has ended.
"""


@dataclass(slots=True, eq=False)
class Kind:
    """Candidates that ask for the same on the same target.

    `blocked_from_s`: those with a time limit of at least this much (all, if 0) do not start in this pass.
    """

    demands: Demands
    target: Target
    pools: tuple[PoolBoard, ...]
    verdict: Verdict | None = None
    refusal: tuple[tuple[Reason, ...], str | None] | None = None
    blocked_from_s: float | None = None
    may_keep: bool = True
    busy: tuple[int, tuple[Reason, ...]] | None = None

    def covers(self, candidate: Candidate) -> bool:
        """Whether a candidate is of this kind. (Identity first: comparing targets costs a call.)"""
        same_target = self.target is candidate.target or self.target == candidate.target
        return same_target and self.demands == candidate.demands

    @property
    def weightless(self) -> bool:
        """Whether it holds nothing wherever it is, and so is in nobody's way."""
        return all(demand.empty for demand in self.demands)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Nodes of a pool kept for a run that is to start there at `at` (inf: not known when)."""

    run_id: str
    at: float
    nodes: tuple[str, ...]


class Pass:
    """The state of a pass: the board, what has been placed, and which nodes are kept for whom."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot
        self._now = now
        self.admission = Admission(snapshot)
        self.keepings: dict[PoolKey, Keeping] = {}
        seats = (seat for holding in snapshot.holdings for seat in holding.allocation.seats)
        self._board = Board(snapshot.nodes, seats)
        self._placed: list[Holding] = []
        self._kinds: dict[tuple[Demands, Target], Kind] = {}
        self._last_kind: Kind | None = None

    def decide(self, candidate: Candidate) -> Placement | Refusal | None:
        """What becomes of the next candidate in order; None: it goes on waiting."""
        kind = self.kind(candidate)
        if kind.refusal is None and (
            kind.blocked_from_s is None or _limit_s(candidate) < kind.blocked_from_s
        ):
            placement = self._place(candidate, kind)
            if placement is not None:
                return placement
        if kind.refusal is not None:
            return _refusal(candidate, CauseCode.NEVER_FITS, *kind.refusal)
        if candidate.queueing is Queueing.FAIL_IF_BUSY:
            return _refusal(candidate, CauseCode.BUSY, self._busy(kind), None)
        if kind.may_keep and self._now - candidate.queued_at >= PATIENCE_S:
            self._keep(candidate, kind)
        return None

    def kind(self, candidate: Candidate) -> Kind:
        """The kind of a candidate; quicker for one after another of a kind, as hashing costs more."""
        last = self._last_kind
        if last is not None and last.covers(candidate):
            return last
        key = (candidate.demands, candidate.target)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Kind(*key, tuple(pools_for(self._board, candidate.target)))
        self._last_kind = kind
        return kind

    def verdict(self, kind: Kind) -> Verdict:
        """Whether a kind can ever start."""
        if kind.verdict is None:
            kind.verdict = self.admission.judge(kind.demands, kind.target)
        return kind.verdict

    def starts_now(self, candidate: Candidate) -> bool:
        """Whether this candidate would start, asked at this point of the pass; nothing is taken."""
        return self._find(candidate, self.kind(candidate)) is not None

    def reasons(self, kind: Kind, *, run_id: str | None = None) -> tuple[Reason, ...]:
        """Why a kind does not start as things are; nodes kept for `run_id` itself are not kept from it."""
        return why_not_now(
            self._snapshot,
            kind.demands,
            kind.target,
            verdict=self.verdict(kind),
            held=self._held(),
            spaces={name: space for pool in kind.pools for name, space in pool.spaces.items()},
            kept_for={
                name: keeping.run_id
                for keeping in self.keepings.values()
                if keeping.run_id != run_id
                for name in keeping.nodes
            },
        )

    def forecasts(self, kind: Kind, pools: Sequence[PoolBoard]) -> Iterator[tuple[PoolBoard, Forecast]]:
        """Where and when a kind could start, in each of these pools where it ever can."""
        upcoming = releases(self._held(), self._now)
        for pool in pools:
            forecast = soonest(
                kind.demands,
                kind.target,
                uneven=self.verdict(kind).uneven,
                pool=pool,
                upcoming=upcoming,
                now=self._now,
            )
            if forecast is not None:
                yield pool, forecast

    def _place(self, candidate: Candidate, kind: Kind) -> Placement | None:
        """Start it if it fits; else remember for its kind that it does not."""
        found = self._find(candidate, kind)
        if found is None:
            self._pass_over(candidate, kind)
            return None
        pool, parts = found
        allocation = allot(parts, pool)
        self._placed.append(_as_holding(candidate, allocation, self._now))
        return Placement(run_id=candidate.run_id, seq=candidate.seq, allocation=allocation)

    def _find(self, candidate: Candidate, kind: Kind) -> tuple[PoolBoard, list[Part]] | None:
        """A place in the first pool that has one; split unevenly only if nothing else is ever possible."""
        views = [
            (pool, View.of(pool, kind.target, use_kept=self._may_use_kept(pool, candidate, kind)))
            for pool in kind.pools
        ]
        for uneven in (False, True):
            for pool, view in views:
                parts = fit(kind.demands, view, uneven=uneven)
                if parts is not None:
                    return pool, parts
            if not self.verdict(kind).uneven:
                break
        return None

    def _may_use_kept(self, pool: PoolBoard, candidate: Candidate, kind: Kind) -> bool:
        """Whether a run may start on kept nodes: if its time limit ends it before they are wanted."""
        keeping = self.keepings.get(pool.key)
        if keeping is None or kind.weightless or keeping.run_id == candidate.run_id:
            return True
        return self._now + _limit_s(candidate) <= keeping.at < inf

    def _pass_over(self, candidate: Candidate, kind: Kind) -> None:
        """Remember that a kind does not fit: never, or not in this pass."""
        if not self.verdict(kind).fits:
            reasons = why_never(self._snapshot, kind.demands, kind.target)
            kind.refusal = (reasons, self.admission.largest(kind.demands, kind.target))
        everything_seen = all(self._may_use_kept(pool, candidate, kind) for pool in kind.pools)
        kind.blocked_from_s = 0.0 if everything_seen else _limit_s(candidate)

    def _keep(self, candidate: Candidate, kind: Kind) -> None:
        """Keep the nodes where this run can start soonest, in a pool that keeps none yet."""
        kind.may_keep = False
        pools = [pool for pool in kind.pools if pool.key not in self.keepings]
        options = list(self.forecasts(kind, pools)) if pools else []
        if options:
            pool, forecast = min(options, key=lambda item: (item[1].at, len(item[1].awaited), item[0].key))
            pool.keep(forecast.nodes)
            self.keepings[pool.key] = Keeping(candidate.run_id, forecast.at, forecast.nodes)

    def _held(self) -> tuple[Holding, ...]:
        """Everything that is held now, by earlier passes and by this one."""
        return (*self._snapshot.holdings, *self._placed)

    def _busy(self, kind: Kind) -> tuple[Reason, ...]:
        """The reasons for a run that may not wait; shared by its kind until something else is placed."""
        placed = len(self._placed)
        if kind.busy is None or kind.busy[0] != placed:
            kind.busy = (placed, self.reasons(kind))
        return kind.busy[1]


def _limit_s(candidate: Candidate) -> float:
    return inf if candidate.time_limit_s is None else candidate.time_limit_s


def _refusal(
    candidate: Candidate, code: CauseCode, reasons: tuple[Reason, ...], largest: str | None
) -> Refusal:
    return Refusal(run_id=candidate.run_id, seq=candidate.seq, code=code, reasons=reasons, largest=largest)


def _as_holding(candidate: Candidate, allocation: Allocation, now: float) -> Holding:
    return Holding(
        candidate=candidate,
        allocation=allocation,
        granted_at=now,
        started_at=None,
        checkpoint_at=None,
        leaving=False,
    )
