"""The queue as people see it: per pool, in scheduling order, what holds slots and what waits for them.

Called by `control` for `tarmac queue`. It sorts by the keys of the pass, so what stands first is asked first;
a run that holds slots stands where it would if it were queued now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Pool
from tarmac.sched.facts import Candidate, Holding, asked_slots
from tarmac.sched.ledger import Ledger
from tarmac.sched.passing.deciding import PoolPass
from tarmac.sched.passing.planning import Pass
from tarmac.sched.placing.board import PoolKey
from tarmac.sched.policies.blocks import Member, period_at
from tarmac.sched.policies.order import BATCH, RANKS, Key, ordering
from tarmac.sched.policies.precedence import held_key


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """Where a run stands: `place` counts from 0 within its pool, holdings and queued runs together.

    `cluster` and `pool` are where it holds slots, else its home pool. `acquired` slots are held now, `needed`
    are what the whole run asks for; `policy` is the pool's.
    """

    run_id: str
    cluster: str
    pool: str
    place: int
    policy: str
    acquired: int
    needed: int


Standing = tuple[int, float, Key]
"""The rank of its mode, what its entity has claimed, and its key: smaller is sooner."""


def listing(ledger: Ledger, now: float) -> tuple[QueuePlace, ...]:
    """Every run that holds slots or waits for some: pools in the order in which they are tried."""
    holdings: dict[PoolKey, list[Holding]] = {}
    for holding in ledger.snapshot().holdings:
        key = (holding.allocation.cluster, holding.allocation.pool)
        holdings.setdefault(key, []).append(holding)
    places: list[QueuePlace] = []
    current = Pass(ledger, now)
    try:
        for key in ledger.pools:
            places += _of_pool(current.enter(key), holdings.pop(key, ()), now)
    finally:
        current.close()
    return (*places, *_elsewhere(ledger, holdings))


def _of_pool(pool: PoolPass, holdings: Iterable[Holding], now: float) -> Iterator[QueuePlace]:
    rules = pool.state.rules
    standings: list[tuple[Standing, Candidate, int]] = [
        (_standing(pool, holding, now), holding.candidate, holding.allocation.slots) for holding in holdings
    ]
    standings += [
        ((*pool.rank(queued.line), queued.key), queued.candidate, 0)
        for queued in pool.state.queue.runs.values()
    ]
    standings.sort(key=lambda item: item[0])
    for place, (_, candidate, acquired) in enumerate(standings):
        yield _place(candidate, rules, place=place, acquired=acquired)


def _standing(pool: PoolPass, holding: Holding, now: float) -> Standing:
    """Where a run that holds slots would stand."""
    rules, candidate = pool.state.rules, holding.candidate
    rank = RANKS[candidate.mode]
    order = ordering(rank, rules)
    claims = pool.opening.claims
    claim = 0.0
    if order.entity is not None and claims is not None:
        claim = claims.of(order.entity(candidate, rules))
    if rank == BATCH:
        return rank, claim, held_key(holding, rules, now)
    if candidate.share is not None:
        began = period_at(rules, now)
        used_s = Member(candidate, holding).used_s(began, now)
        if candidate.share.period_at == began:
            candidate = replace(candidate, share=replace(candidate.share, used_s=used_s))
    return rank, claim, order.key(candidate, rules, order.era(rules, now) if order.era is not None else 0.0)


def _elsewhere(ledger: Ledger, holdings: Mapping[PoolKey, Iterable[Holding]]) -> Iterator[QueuePlace]:
    """Runs in pools without nodes: on nodes that are gone, or for nodes that have not been told yet."""
    found: dict[PoolKey, list[tuple[Candidate, int]]] = {}
    for key, held in holdings.items():
        found.setdefault(key, []).extend((holding.candidate, holding.allocation.slots) for holding in held)
    for candidate, _ in (*ledger.homeless.values(), *ledger.refused.values()):
        target = candidate.target
        key = (target.cluster or LOCAL_CLUSTER, candidate.pool or target.pool or DEFAULT_POOL)
        found.setdefault(key, []).append((candidate, 0))
    rules = {pool.key: pool for pool in ledger.cluster().pools}
    for key, runs in sorted(found.items()):
        pool = rules.get(key) or Pool(cluster=key[0], name=key[1])
        runs.sort(key=lambda item: (RANKS[item[0].mode], item[0].submitted_at, item[0].run_id))
        for place, (candidate, acquired) in enumerate(runs):
            yield _place(candidate, pool, place=place, acquired=acquired)


def _place(candidate: Candidate, rules: Pool, *, place: int, acquired: int) -> QueuePlace:
    return QueuePlace(
        run_id=candidate.run_id,
        cluster=rules.cluster,
        pool=rules.name,
        place=place,
        policy=rules.policy,
        acquired=acquired,
        needed=asked_slots(candidate.demands),
    )
