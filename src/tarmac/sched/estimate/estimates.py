"""When queued runs start: the median of several simulations of the cluster.

Called by `control` for `tarmac why` and `tarmac queue`, and by the simulator to measure it. Running times are
guesses, and the first of many runs to end is sooner than the median of each: so each simulation gives each
run its own quantile from an evenly spread sequence. One more simulation, in which every run uses its whole
time limit, gives the latest start; a similar one gives the begin of time blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice, zip_longest
from math import inf, modf

from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.sched.cycle.cycle import Cycle, Ledger
from tarmac.sched.cycle.pool_cycle import PoolCycle
from tarmac.sched.estimate.durations import Durations
from tarmac.sched.estimate.simulation import End, Estimate, EstimateBasis, Predict, Simulation, least_certain
from tarmac.sched.facts import Candidate, Snapshot
from tarmac.sched.placing.board import PoolKey

SIMULATIONS = 5
"""The most simulations. An odd number has a median."""

SIMULATED_RUNS = 2_000
"""The most simulated runs over all simulations, at about 0.1 ms each on one processor."""

PASSES = 400
"""The most cycles of a simulation. Cycles come ever further apart, so this reaches months ahead."""

STARTS = 2_000
"""The most starts in a simulation for one run."""

STARTS_OF_ALL = 5_000
"""The most starts in a simulation for many runs: it covers the beginning of a long queue."""

LEAVING_S = 3.0
"""The likely time for a run to leave, at most its grace."""

GOLDEN = (5**0.5 - 1) / 2
"""Its multiples are spread evenly between 0 and 1, for any number of them."""

BEHIND = 1_000
"""The number of later runs that the scope of a run includes, because some may overtake."""

BEHIND_PAGE = 200
"""The same for a page, whose cost they would be: each simulation indexes all runs of the scope."""

AHEAD = 2_000
"""The number of runs ahead from which the start of a run is too far off to estimate."""

MOST_ESTIMATED = 5_000
"""The most runs of a long queue that are estimated."""


def estimates(
    scope: Scope, now: float, *, durations: Durations, passes: int = PASSES
) -> Mapping[str, Estimate]:
    """When each of the scope's runs starts if nothing else is submitted."""
    if scope.too_far:
        return {run_id: too_far(run_id) for run_id in scope.run_ids}
    facts, bounds = scope.facts, (passes, STARTS if scope.one else STARTS_OF_ALL)
    simulations = [
        _simulate(Simulation(facts, now, predict, leaving_s=LEAVING_S), scope.run_ids, bounds)
        for predict in _guesses(scope, durations)
    ]
    slowest = None
    if not durations or _any_limit(facts):
        slowest = _simulate(Simulation(facts, now, limit_end), scope.run_ids, bounds)
    found = {run_id: _estimate(run_id, simulations, slowest) for run_id in scope.run_ids}
    sharing = [run.run_id for run in facts.queue if run.mode is Mode.INTERRUPTIBLE and run.run_id in found]
    if not durations or not sharing:
        return found
    blocks = _simulate(Simulation(facts, now, limit_end, leaving_s=LEAVING_S), sharing, bounds)
    # The rules define when a block begins; an earlier run may end sooner, but that is no basis for an
    # estimate.
    known = [run_id for run_id in sharing if blocks[run_id][0] < inf]
    return found | {run_id: _estimate(run_id, [blocks], slowest) for run_id in known}


def too_far(run_id: str) -> Estimate:
    """The estimate for a run with too many runs ahead."""
    return Estimate(run_id=run_id, start_at=None, latest_at=None, basis=EstimateBasis.TOO_FAR)


_Start = tuple[float, EstimateBasis]
"""The start (inf: unknown) and its basis."""


def _guesses(scope: Scope, durations: Durations) -> Iterator[Predict]:
    """The running times for each simulation; without any history, the time limits."""
    if not durations:
        yield limit_end
        return
    simulations = _simulations(scope)
    for turn in range(simulations):
        yield sampled_ends(scope.facts, durations, offset=(turn + 0.5) / simulations)


def _simulations(scope: Scope) -> int:
    """An odd number of simulations, fewer if each has many runs."""
    run_ids = set(scope.run_ids)
    last = max((rank for rank, item in enumerate(scope.facts.queue, 1) if item.run_id in run_ids), default=0)
    affordable = SIMULATED_RUNS // max(1, last + len(scope.facts.holdings))
    return max(1, min(SIMULATIONS, affordable - 1 + affordable % 2))


def _simulate(simulation: Simulation, run_ids: Iterable[str], bounds: tuple[int, int]) -> dict[str, _Start]:
    """When these runs start in a simulation, within these bounds on cycles and starts."""
    most_cycles, most_starts = bounds
    missing = set(run_ids)
    going_on = True
    for _ in range(most_cycles):
        going_on = simulation.step()
        missing.difference_update(simulation.newly_started())
        if not missing or not going_on or len(simulation.starts) > most_starts:
            break
    too_far = missing - simulation.refused if going_on else set[str]()
    unknown = dict.fromkeys(missing, (inf, EstimateBasis.UNKNOWN))
    return simulation.starts | unknown | dict.fromkeys(too_far, (inf, EstimateBasis.TOO_FAR))


def _estimate(
    run_id: str, simulations: Sequence[dict[str, _Start]], slowest: dict[str, _Start] | None
) -> Estimate:
    starts = sorted(simulation[run_id] for simulation in simulations)
    start_at = starts[len(starts) // 2][0]
    if start_at == inf:
        return Estimate(run_id=run_id, start_at=None, latest_at=None, basis=starts[-1][1])
    latest_at = slowest[run_id][0] if slowest is not None else inf
    return Estimate(
        run_id=run_id,
        start_at=start_at,
        latest_at=max(start_at, latest_at) if latest_at < inf else None,
        basis=least_certain(basis for at, basis in starts if at < inf),
    )


def _any_limit(facts: Snapshot) -> bool:
    """Whether a run that holds or awaits slots has a time limit."""
    holding = (item.candidate for item in facts.holdings)
    return any(candidate.time_limit_s is not None for candidate in (*holding, *facts.queue))


def limit_end(candidate: Candidate, ran_s: float) -> End:
    """The end of a run that uses its whole time limit; without a limit it never ends."""
    if candidate.time_limit_s is None:
        return End(inf, EstimateBasis.UNKNOWN)
    return End(max(0.0, candidate.time_limit_s - ran_s), EstimateBasis.TIME_LIMITS)


def sampled_ends(facts: Snapshot, durations: Durations, *, offset: float) -> Predict:
    """Running times like those of similar runs, each at its own quantile, within the time limit."""
    known = [holding.candidate for holding in facts.holdings] + list(facts.queue)
    known.sort(key=lambda candidate: (candidate.submitted_at, candidate.run_id))
    shares = {candidate.run_id: modf((rank + 1) * GOLDEN + offset)[0] for rank, candidate in enumerate(known)}
    totals_s: dict[str, float] = {}

    def end(candidate: Candidate, ran_s: float) -> End:
        run_id = candidate.run_id
        if run_id not in totals_s:  # a run preempted since keeps its earlier prediction
            left_s = durations.remaining_s(candidate, elapsed_s=ran_s, share=shares[run_id])
            totals_s[run_id] = ran_s + (inf if left_s is None else left_s)
        limit = limit_end(candidate, ran_s)
        left_s = max(0.0, totals_s[run_id] - ran_s)
        return End(left_s, EstimateBasis.HISTORY) if left_s < limit.in_s else limit

    return end


@dataclass(frozen=True, slots=True)
class Scope:
    """`facts` hold all that the start of the queued runs `run_ids` depends on.

    `one`: the scope is of a single run. `too_far`: too many runs are ahead for an estimate.
    """

    facts: Snapshot
    run_ids: tuple[str, ...]
    one: bool = False
    too_far: bool = False


def scope_of_first(ledger: Ledger, now: float, most: int = MOST_ESTIMATED) -> Scope:
    """The scope of the first `most` runs of each pool, and of unassigned and deferred runs."""
    most = min(most, MOST_ESTIMATED)
    run_ids = list(islice((candidate for candidate, _ in ledger.unassigned.values()), most))
    run_ids += islice(ledger.deferred.candidates(), most)
    queue = list(run_ids)
    with closing(Cycle(ledger, now)) as current:
        for key in ledger.pools:
            pool = current.enter(key)
            first = list(islice(_candidates(pool), most))
            run_ids += first
            queue += chain(first, islice(_behind(pool, first), BEHIND_PAGE))
    facts = ledger.snapshot(queue)
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
    queue = list(first)
    with closing(Cycle(ledger, now)) as current:
        for key, state in ledger.pools.items():
            if key in keys:
                pool, most = current.enter(key), AHEAD
                if state is home:
                    most = min(pool.before(home.queue.runs[run_id]), AHEAD) + 1 + BEHIND
                queue += islice(_candidates(pool), most)
    nodes = tuple(node for node in facts.nodes if (node.cluster, node.pool) in keys)
    names = {node.name for node in nodes}
    holdings = facts.holdings  # those elsewhere as well, where limits count them
    if not facts.caps:
        holdings = tuple(item for item in holdings if not names.isdisjoint(item.allocation.nodes))
    facts = replace(facts, nodes=nodes, queue=tuple(queue), holdings=holdings)
    return Scope(facts, (run_id,), one=True, too_far=len(queue) > AHEAD)


def _behind(pool: PoolCycle, first: Collection[Candidate]) -> Iterator[Candidate]:
    """The other runs of a pool, of each mode and entity in turn: in a fair share their starts alternate."""
    queues = nsmallest(BEHIND_PAGE, pool.state.queue.mode_queues(), key=pool.rank)
    turns = zip_longest(*(mode_queue.every() for mode_queue in queues))
    others = (entry[1].candidate for turn in turns for entry in turn if entry is not None)
    known = {candidate.run_id for candidate in first}
    return (candidate for candidate in others if candidate.run_id not in known)


def _candidates(pool: PoolCycle) -> Iterator[Candidate]:
    """The queued runs of a pool, in order."""
    return (item.candidate for item in pool.in_order())
