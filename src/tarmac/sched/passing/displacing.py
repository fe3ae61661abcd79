"""Whom a blocked run displaces: the fewest it needs, the last in order first, or nobody. Used by a pass.

Those who may be displaced (`precedence`) are released in thought, in the order in which they would give way,
until the run fits; then everyone who turns out not to be needed is spared. What is on its way out already
counts as free. Nothing is displaced for a run that would not start by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import inf

from tarmac.sched.books.forecast import Future, Held, soonest
from tarmac.sched.books.lanes import Kind, Line, Queued
from tarmac.sched.books.pool_state import PoolState
from tarmac.sched.decisions import Preemption, PreemptionReason
from tarmac.sched.facts import Holding
from tarmac.sched.passing.asking import Displacement
from tarmac.sched.placing.gangs import fit
from tarmac.sched.policies import blocks
from tarmac.sched.policies.blocks import Member
from tarmac.sched.policies.fairness import FairClaims, entity_of
from tarmac.sched.policies.order import BATCH, CYCLE, INTERRUPTIBLE, RANKS, Key
from tarmac.sched.policies.precedence import Precedence

FIRST_LOOK = 16
"""So many that may be displaced are looked at first, then ever more: mostly a few do."""


class PoolDisplacer:
    """Decides, for one pool in one pass.

    `going` are holdings that this pass has asked to leave already. `back` are those of the leaving that will
    take the same slots again at once, for their next turn: nobody but a cycle run follows them.
    """

    def __init__(
        self,
        state: PoolState,
        precedence: Precedence,
        *,
        going: Iterable[Held] = (),
        back: Iterable[Held] = (),
    ) -> None:
        self._state = state
        self._now = precedence.now
        self._claims = precedence.claims
        self._precedence = precedence
        leaving = [*(state.holdings[run_id] for run_id in sorted(state.leaving)), *going]
        self._gone = {held.ends[2] for held in leaving}
        returning = {held.ends[2] for held in back}
        staying_away = [held for held in leaving if held.ends[2] not in returning]
        self._going = dict.fromkeys(RANKS.values(), staying_away) | {CYCLE: leaving}
        self._refused: set[tuple[Kind, Line]] = set()
        self._may: dict[Line, bool] = {}
        self._awaited = False
        self._entities: list[str] | None = None

    def may(self, line: Line) -> bool:
        """Whether a run of this line could displace anybody, or follow somebody who leaves."""
        found = self._may.get(line)
        if found is None:
            found = self._may[line] = self._could(line)
        return found

    def displace(self, queued: Queued) -> Displacement | None:
        """Who gives way to this run; it does not fit what is free now."""
        kind = queued.kind
        if (kind, queued.line) in self._refused:
            return None
        found = self._find(queued, self._victims(queued))
        if found is None:
            found = self._await_guarded(queued)
        if found is None:
            self._refused.add((kind, queued.line))
            return None
        victims, nodes = found
        self._gone.update(held.ends[2] for held in victims)
        if self._claims is not None and queued.line.rank == BATCH:
            self._claims.charge(queued.candidate, entity_of(queued.candidate, self._state.rules))
        return Displacement(
            preemptions=tuple(_preemption(held.holding, queued.candidate.run_id) for held in victims),
            nodes=nodes,
            at=self._now,
        )

    def _could(self, line: Line) -> bool:
        holders, rules = self._state.holders, self._state.rules
        if holders.interruptible or (self._going[line.rank] and (rules.preemption or line.rank != BATCH)):
            return True
        if line.rank == INTERRUPTIBLE or not rules.preemption:
            return False
        if line.rank == CYCLE:
            return bool(holders.ready)
        if holders.guarded and self._waited_long(line.entries[0][1]):
            return True
        if self._claims is None:
            last = holders.last()
            return last is not None and last > line.entries[0][0]
        floor = self._claims.of(line.entity or "")
        others = (entity for entity in self._by_usage()[:2] if entity != line.entity)
        return any(self._claims.most_standing(entity) >= floor for entity in others)

    def _find(self, queued: Queued, more: Iterator[Held]) -> tuple[list[Held], tuple[str, ...]] | None:
        """The victims and the nodes; None if a run would not start whoever of these left."""
        room = self._state.board.free[None] + sum(held.slots for held in self._going[queued.line.rank])
        victims: list[Held] = []
        look = FIRST_LOOK
        while True:
            new = list(islice(more, look))
            victims += new
            look *= 4
            room += sum(held.slots for held in new)
            if room >= queued.kind.slots:
                found = self._needed(queued, victims)
                if found is not None:
                    return found
            if len(new) < look // 4:
                return None

    def _await_guarded(self, queued: Queued) -> tuple[list[Held], tuple[str, ...]] | None:
        """The nodes where a run that has waited long displaces others once they have had their guarantee.

        Kept for it, or else runs that come and go could pass it for ever, each within its guaranteed time.
        """
        state = self._state
        if queued.line.rank != BATCH or not state.rules.preemption or not self._waited_long(queued):
            return None
        self._awaited = True
        if self._claims is None:
            guarded = [
                held for until, _, held, key in state.holders.guarded if key > queued.key and until < inf
            ]
        else:
            floor = self._claims.of(queued.line.entity or "")
            guarded = [
                held
                for until, _, held, _ in state.holders.guarded
                if until < inf and self._standing(held, self._claims) >= floor
            ]
        found = self._find(queued, chain(self._here(guarded), self._victims(queued)))
        return None if found is None else ([], found[1])

    def _waited_long(self, queued: Queued) -> bool:
        """Whether nodes are to be kept for a run; those of one run at a time are: the others follow.

        Whoever passed it when it came has had its guarantee by then, and so may others that passed after.
        """
        waited_s = self._now - queued.candidate.queued_at
        return not self._awaited and waited_s >= 2 * self._state.rules.guaranteed_s

    def _standing(self, held: Held, claims: FairClaims) -> float:
        return claims.standing(entity_of(held.holding.candidate, self._state.rules), held.slots)

    def _needed(self, queued: Queued, victims: list[Held]) -> tuple[list[Held], tuple[str, ...]] | None:
        """Of these, in order, as many as are needed, less those who turn out not to be."""
        going = self._going[queued.line.rank]
        forecast = soonest(
            queued.kind,
            board=self._state.board,
            releases=[(held.ends, held) for held in (*going, *victims)],
            spread=self._state.spread,
        )
        if forecast is None:
            return None
        nodes = set(forecast.nodes)
        first = victims[: max(0, forecast.ended - len(going))]
        needed = [held for held in first if not nodes.isdisjoint(held.loads)]
        for held in reversed(needed[:]):
            others = [other for other in needed if other is not held]
            if (fewer := self._nodes(queued, others)) is not None:
                needed, nodes = others, set(fewer)
        return needed, tuple(self._nodes(queued, needed) or forecast.nodes)

    def _nodes(self, queued: Queued, victims: list[Held]) -> tuple[str, ...] | None:
        """Where a run fits once these have left."""
        kind, future = queued.kind, Future(self._state.board)
        for held in (*self._going[queued.line.rank], *victims):
            future.release(held)
        view = future.view(kind.target, spread=self._state.spread)
        parts = fit(kind.demands, view, uneven=kind.verdict.uneven)
        return None if parts is None else tuple(dict.fromkeys(part.space.node.name for part in parts))

    def _victims(self, queued: Queued) -> Iterator[Held]:
        """Who may be displaced by a run, in the order in which they would give way."""
        rank, holders = queued.line.rank, self._state.holders
        if holders.interruptible:
            may = [
                held
                for held in holders.interruptible.values()
                if self._precedence.displaceable_at(queued.candidate, held.holding) <= self._now
            ]
            yield from self._here(sorted(may, key=self._interruptible_preference))
        if rank == INTERRUPTIBLE or not self._state.rules.preemption:
            return
        if self._claims is not None:
            yield from self._here(self._overdrawn(queued, self._claims))
        elif rank == CYCLE:
            yield from self._here(holders.after(()))
        else:
            yield from self._here(holders.after(queued.key))

    def _by_usage(self) -> list[str]:
        """Under fair share: the entities with ready batch runs, the one that used most first."""
        if self._entities is None:
            claims = self._claims
            entities = [entity for entity in self._state.holders.ready if entity is not None]
            if claims is not None:
                entities.sort(key=lambda entity: (-claims.used(entity), entity))
            self._entities = entities
        return self._entities

    def _overdrawn(self, queued: Queued, claims: FairClaims) -> list[Held]:
        """Under fair share: ready batch runs whose entities used too much, the most first."""
        found: list[tuple[float, Key, Held]] = []
        cycle = queued.line.rank == CYCLE
        floor = -inf if cycle else claims.of(queued.line.entity or "")
        for entity in self._by_usage():
            if claims.most_standing(entity) < floor:
                break
            if cycle or entity != queued.line.entity:
                for key, held in self._state.holders.ready[entity]:
                    if (standing := claims.standing(entity, held.slots)) >= floor:
                        found.append((standing, key, held))
        found.sort(reverse=True)
        return [held for _, _, held in found]

    def _interruptible_preference(self, held: Held) -> tuple[int, float, float, str]:
        """Those who have had most of what they may expect first; then who loses least."""
        holding = held.holding
        member = Member(holding.candidate, holding)
        expects = blocks.tier(member, self._state.rules, self._now)
        return -expects, _progress_lost_slot_s(holding, self._now), -holding.granted_at, held.ends[2]

    def _here(self, helds: Iterable[Held]) -> Iterator[Held]:
        return (held for held in helds if held.ends[2] not in self._gone)


def _progress_lost_slot_s(holding: Holding, now: float) -> float:
    """What a run would have to do again."""
    began = holding.granted_at if holding.started_at is None else holding.started_at
    return holding.allocation.slots * max(0.0, now - max(began, holding.checkpoint_at or began))


def _preemption(holding: Holding, for_run_id: str) -> Preemption:
    return Preemption(
        run_id=holding.candidate.run_id,
        seq=holding.candidate.seq,
        reason=PreemptionReason.MAKE_WAY,
        for_run_id=for_run_id,
    )
