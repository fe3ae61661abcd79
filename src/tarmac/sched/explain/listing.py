"""The queue as people see it: per pool, in scheduling order, the runs that hold slots and those that wait.

Called by `control` for `tarmac queue`. It sorts by the keys of the cycle, so the first run is tried first; a
run that holds slots has the place it would have if it were queued now.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import closing
from dataclasses import dataclass
from heapq import merge

from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Pool
from tarmac.model.codec import replace
from tarmac.sched.cycle.cycle import Cycle, Ledger
from tarmac.sched.cycle.pool_cycle import OrderPlace, PoolCycle
from tarmac.sched.facts import Candidate, Holding, requested_slots
from tarmac.sched.placing.board import PoolKey
from tarmac.sched.policies.blocks import Member, period_at
from tarmac.sched.policies.order import BATCH, RANKS, ordering
from tarmac.sched.policies.precedence import holder_key


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a run: `place` counts from 0 within its pool, holdings and queued runs together.

    `acquired` slots are held now, `needed` is the request of the whole run.
    """

    run_id: str
    place: int
    acquired: int
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPage:
    """A part of the queue of a pool, in scheduling order, and the rules of the pool.

    The pool is where a run holds slots, otherwise its home pool. `total` counts the runs that the part is
    taken from; `more`: some of them follow the part.
    """

    rules: Pool
    total: int
    more: bool
    places: tuple[QueuePlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of each queue: the first `limit` runs (None: all) after place `after` of `owner` (None:
    any), and the runs of `also` at any place.
    """

    limit: int | None = None
    after: int = -1
    owner: str | None = None
    also: frozenset[str] = frozenset()


WHOLE = Part()

_Entry = tuple[Candidate, int]
"""A run and the slots it holds."""


def pages(
    ledger: Ledger, now: float, part: Part = WHOLE, *, pools: Callable[[PoolKey], bool] = lambda _: True
) -> tuple[PoolPage, ...]:
    """A part of the queue of each of the `pools`. Reads only the beginning of a queue if that suffices."""
    holdings: dict[PoolKey, list[Holding]] = {}
    for holding in ledger.holdings():
        key = (holding.allocation.cluster, holding.allocation.pool)
        holdings.setdefault(key, []).append(holding)
    deferred: dict[PoolKey, list[Candidate]] = {}
    for candidate in ledger.deferred.candidates():
        deferred.setdefault(ledger.deferred_home(candidate), []).append(candidate)
    found: list[PoolPage] = []
    with closing(Cycle(ledger, now)) as current:
        for key, state in ledger.pools.items():
            own = holdings.pop(key, [])
            if pools(key):
                rest, queued = deferred.get(key, []), state.queue.runs
                others = {item.run_id: item for item in (*(holding.candidate for holding in own), *rest)}
                named = {run_id for run_id in part.also if run_id in queued or run_id in others}
                total = len(queued) + len(others)
                if part.owner is not None:
                    total = [each.candidate.owner for each in queued.values()].count(part.owner)
                    total += [each.owner for each in others.values()].count(part.owner)
                entries = _in_order(current.enter(key), own, rest, now)
                found.append(_page(state.rules, total, named, entries, part))
    return (*found, *_elsewhere(ledger, holdings, part, pools))


def _page(rules: Pool, total: int, named: Set[str], entries: Iterable[_Entry], part: Part) -> PoolPage:
    """The part of these `total` runs of a pool, in order; `named` are those of `part.also` among them.

    The walk ends at the last run of the part.
    """
    places: list[QueuePlace] = []
    counted, missing, more = 0, set(named), False
    for place, (candidate, acquired) in enumerate(entries):
        full = part.limit is not None and len(places) >= part.limit
        if not missing and (full or counted == total):
            break
        mine = part.owner in (None, candidate.owner)
        more = more or (mine and full)
        counted += mine
        if (mine and place > part.after and not full) or candidate.run_id in missing:
            missing.discard(candidate.run_id)
            needed = requested_slots(candidate.demands)
            places.append(QueuePlace(candidate.run_id, place, acquired, needed))
    return PoolPage(rules=rules, total=total, more=more or counted < total, places=tuple(places))


def _in_order(
    pool: PoolCycle, holdings: Iterable[Holding], rest: Iterable[Candidate], now: float
) -> Iterator[_Entry]:
    """The holding, deferred and waiting runs of a pool, in one order."""
    entries = [
        (_order_key(pool, holding.candidate, holding, now), (holding.candidate, holding.allocation.slots))
        for holding in holdings
    ]
    entries += [(_order_key(pool, candidate, None, now), (candidate, 0)) for candidate in rest]
    entries.sort(key=_first)
    waiting = ((pool.place(queued), (queued.candidate, 0)) for queued in pool.in_order())
    return (entry for _, entry in merge(entries, waiting, key=_first))


def _first(item: tuple[OrderPlace, _Entry]) -> OrderPlace:
    return item[0]


def _order_key(pool: PoolCycle, candidate: Candidate, holding: Holding | None, now: float) -> OrderPlace:
    """The order key of a run that holds slots or is deferred."""
    rules = pool.state.rules
    rank = RANKS[candidate.mode]
    order = ordering(rank, rules)
    past_usage = pool.due.past_usage
    usage = 0.0
    if order.entity is not None and past_usage is not None:
        usage = past_usage.of(order.entity(candidate, rules))
    if rank == BATCH and holding is not None:
        return rank, usage, holder_key(holding, rules, now)
    if candidate.share is not None:
        began = period_at(rules, now)
        used_s = Member(candidate, holding).used_s(began, now)
        if candidate.share.period_at == began:
            candidate = replace(candidate, share=replace(candidate.share, used_s=used_s))
    return rank, usage, order.key(candidate, rules, order.era(rules, now) if order.era is not None else 0.0)


def _elsewhere(
    ledger: Ledger,
    holdings: Mapping[PoolKey, Iterable[Holding]],
    part: Part,
    pools: Callable[[PoolKey], bool],
) -> Iterator[PoolPage]:
    """Runs in pools without nodes: their nodes are gone or not reported yet."""
    found: dict[PoolKey, list[_Entry]] = {}
    for key, own in holdings.items():
        found.setdefault(key, []).extend((holding.candidate, holding.allocation.slots) for holding in own)
    for candidate, _ in (*ledger.unassigned.values(), *ledger.refused.values()):
        target = candidate.target
        key = (target.cluster or LOCAL_CLUSTER, candidate.pool or target.pool or DEFAULT_POOL)
        found.setdefault(key, []).append((candidate, 0))
    rules = {pool.key: pool for pool in ledger.cluster().pools}
    for key, runs in sorted(found.items()):
        if pools(key):
            runs.sort(key=lambda item: (RANKS[item[0].mode], item[0].submitted_at, item[0].run_id))
            named = part.also & {candidate.run_id for candidate, _ in runs}
            total = sum(part.owner in (None, candidate.owner) for candidate, _ in runs)
            yield _page(rules.get(key) or Pool(cluster=key[0], name=key[1]), total, named, runs, part)
