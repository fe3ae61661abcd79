"""The facts that the start of some runs depends on, as input of an estimate.

`control` takes a scope from its ledger, which is quick, and estimates afterwards: see `estimates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from tarmac.model.record import replace
from tarmac.sched.cycle.cycle import Cycle
from tarmac.sched.facts import Candidate, Snapshot
from tarmac.sched.index.queues import Queued
from tarmac.sched.ledger import Ledger
from tarmac.sched.placing.board import PoolKey

BEHIND = 1_000
"""The number of later runs that a scope includes, because some may overtake."""

AHEAD = 2_000
"""The number of runs ahead from which the start of a run is too far off to estimate."""

FIRST = 5_000
"""The most runs of a long queue that are estimated."""


@dataclass(frozen=True, slots=True)
class Scope:
    """`facts` hold all that the start of the queued runs `run_ids` depends on.

    `one`: the scope is of a single run. `too_far`: too many runs are ahead for an estimate.
    """

    facts: Snapshot
    run_ids: tuple[str, ...]
    one: bool = False
    too_far: bool = False


def scope_of_all(ledger: Ledger) -> Scope:
    """The scope of all queued runs of all pools."""
    facts = ledger.snapshot()
    return Scope(facts, tuple(candidate.run_id for candidate in facts.queue))


def scope_of_first(ledger: Ledger, now: float, most: int = FIRST) -> Scope:
    """The scope of the first `most` runs of each pool, and of unassigned and deferred runs."""
    most = min(most, FIRST)
    run_ids = list(islice((candidate for candidate, _ in ledger.unassigned.values()), most))
    run_ids += islice(ledger.deferred.candidates(), most)
    queue, current = list(run_ids), Cycle(ledger, now)
    try:
        for key, state in ledger.pools.items():
            state.refresh(now)
            waiting = _candidates(current.enter(key).in_order())
            run_ids += islice(waiting, most)
            queue += run_ids[len(queue) :]
            queue += islice(waiting, BEHIND)
    finally:
        current.close()
    facts = replace(ledger.snapshot(), queue=tuple(queue))
    return Scope(facts, tuple(candidate.run_id for candidate in run_ids))


def scope_of_run(ledger: Ledger, run_id: str, now: float) -> Scope:
    """The scope of one queued run: the pools that fit it, their holders and their queues.

    The queue of its home pool includes the runs before it and `BEHIND` runs after it. Raises KeyError if the
    run is not queued.
    """
    facts = ledger.snapshot()
    home = ledger.home(run_id)
    if home is None:
        if run_id in ledger.deferred:
            deferred, pools = _awaited(ledger, run_id, facts)
            return _one(ledger, run_id, now, pools=pools, first=deferred)
        candidate, _ = ledger.refused[run_id] if run_id in ledger.refused else ledger.unassigned[run_id]
        return Scope(replace(facts, queue=(candidate,), holdings=()), (run_id,), one=True)
    return _one(ledger, run_id, now, pools=home.queue.runs[run_id].request.feasibility.pools)


def _awaited(ledger: Ledger, run_id: str, facts: Snapshot) -> tuple[list[Candidate], set[PoolKey]]:
    """The deferred runs on which a run depends, itself included, and the pools of all its dependencies."""
    allocations = {item.candidate.run_id: item.allocation for item in facts.holdings}
    deferred: dict[str, Candidate] = {}
    pools: set[PoolKey] = set()
    following = [run_id]
    while following:
        current = following.pop()
        if current in allocations:
            pools.add((allocations[current].cluster, allocations[current].pool))
        elif current in ledger.deferred and current not in deferred:
            deferred[current] = ledger.candidate(current)
            pools.update(ledger.request_of(deferred[current]).feasibility.pools)
            following += deferred[current].awaits
            if deferred[current].over_limit:
                following += _before_in_group(ledger, deferred[current])
        elif (home := ledger.home(current)) is not None:
            pools.update(home.queue.runs[current].request.feasibility.pools)
    return list(deferred.values()), pools


def _before_in_group(ledger: Ledger, candidate: Candidate) -> Iterator[str]:
    """The deferred members of its group that are over the limit and come before it."""
    for other in ledger.deferred.candidates():
        if other.over_limit and other.group == candidate.group and other.run_id < candidate.run_id:
            yield other.run_id


def _one(
    ledger: Ledger, run_id: str, now: float, *, pools: Iterable[PoolKey], first: Iterable[Candidate] = ()
) -> Scope:
    """The scope of one run that these pools fit; `first` are queued runs that are in no pool's queue."""
    facts, home, keys = ledger.snapshot(), ledger.home(run_id), set(pools)
    current = Cycle(ledger, now)
    queue = list(first)
    try:
        for key, state in ledger.pools.items():
            if key not in keys:
                continue
            state.refresh(now)
            waiting = _candidates(current.enter(key).in_order())
            if state is home:
                queue += _up_to(run_id, waiting)
                queue += islice(waiting, BEHIND)
            else:
                queue += islice(waiting, AHEAD)
    finally:
        current.close()
    nodes = tuple(node for node in facts.nodes if (node.cluster, node.pool) in keys)
    names = {node.name for node in nodes}
    holdings = tuple(item for item in facts.holdings if not names.isdisjoint(item.allocation.nodes))
    facts = replace(facts, nodes=nodes, queue=tuple(queue), holdings=holdings)
    return Scope(facts, (run_id,), one=True, too_far=len(queue) > AHEAD)


def _candidates(queued: Iterator[Queued]) -> Iterator[Candidate]:
    return (item.candidate for item in queued)


def _up_to(run_id: str, waiting: Iterator[Candidate]) -> Iterator[Candidate]:
    """The runs up to this one, itself included; one more than `AHEAD` at most."""
    for candidate in islice(waiting, AHEAD + 1):
        yield candidate
        if candidate.run_id == run_id:
            return
