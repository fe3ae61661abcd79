"""Pages of a queue as data, and the runs of clusters with their own queue. Called by `queueing`.

The runs are ordered by `DelegatedOrder`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from math import inf

from tarmac import api
from tarmac.control.delegation import capacity_of
from tarmac.control.queue.lines import MOST_FOLDED, Arrays, Member, lines_of, page_of
from tarmac.control.queue.reordering import PoolKey
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.delegated_order import Place
from tarmac.control.state.run_cache import RunCache
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.summary import RunSummary
from tarmac.sched import EstimateBasis, Part

_WAITING = frozenset({RunState.QUEUED, RunState.SUBMITTED})


def delegated_pools(control: ControlState) -> tuple[Pool, ...]:
    """The known pools of clusters that place runs themselves."""
    keys = dict.fromkeys(
        (node.cluster, node.pool)
        for engine in control.engines
        if engine.delegate is not None
        for node in capacity_of(engine)
    )
    return tuple(Pool(cluster=cluster, name=name) for cluster, name in keys)


def delegated_pages(
    control: ControlState, part: Part, pools: Callable[[PoolKey], bool], arrays: Arrays | None
) -> list[api.QueuePool]:
    """This part of the queue of each of the `pools` with running or waiting runs.

    With `arrays`, one line for all members of an array.
    """
    pages: list[api.QueuePool] = []
    if control.engines.alone:
        return pages
    with control.lock:
        cache, end = control.run_cache(), 0
        order = cache.delegated.order
        while end < len(order):
            begin, key = end, order[end][:2]
            end = bisect_left(order, (*key, inf), begin)
            if pools(key):
                pages.append(_page(cache, order[begin:end], part, arrays))
    return pages


def with_stuck(control: ControlState, runs: list[RunSummary]) -> list[RunSummary]:
    """The list of runs with a reason on each run whose job never starts by itself, as on failed ones."""
    if control.engines.alone:
        return runs
    submitted = [run.id for run in runs if run.state is RunState.SUBMITTED]
    with control.lock:
        attempts = control.run_cache().attempts
        natives = {run_id: attempts[run_id].native for run_id in submitted if run_id in attempts}
    stuck = {run_id: native for run_id, native in natives.items() if native is not None and native.stuck}
    return [
        replace(run, message=f"never starts as things are: {stuck[run.id].because}")
        if run.id in stuck
        else run
        for run in runs
    ]


def _page(cache: RunCache, queue: Sequence[Place], part: Part, arrays: Arrays | None) -> api.QueuePool:
    mine: Sequence[int] = range(len(queue))
    if part.owner is not None:
        mine = [at for at, place in enumerate(queue) if place[-1] == part.owner]
    begin = bisect_right(mine, part.after)
    shown = mine[begin:][: part.limit if arrays is None or part.limit is None else MOST_FOLDED]
    following = next(iter(mine[begin + len(shown) :]), None)
    known = (cache.delegated.places.get(run_id) for run_id in part.also)
    also = (bisect_left(queue, place) for place in known if place and place[:2] == queue[0][:2])
    members = (_member(cache, at, queue[at][-2]) for at in sorted({*shown, *also}))
    lines, unread = (
        lines_of(members, part.limit) if arrays is not None else ([[each] for each in members], None)
    )
    following = following if unread is None else unread
    pool = Pool(cluster=queue[0][0], name=queue[0][1])
    return page_of(pool, len(mine), lines, _estimate, following=following, arrays=arrays)


def _member(cache: RunCache, at: int, run_id: str) -> Member:
    run, attempt = cache.runs[run_id], cache.attempts.get(run_id)
    placed = attempt is not None and attempt.allocated_at is not None
    acquired = attempt.current_allocation.slots if attempt is not None and placed else 0
    return Member(at, run, acquired, run.spec.slots, attempt.native if attempt is not None else None)


def _estimate(member: Member) -> api.Estimate | None:
    if member.run.state not in _WAITING:
        return None
    start_at = member.native.expected_start_at if member.native is not None else None
    basis = EstimateBasis.UNKNOWN if start_at is None else EstimateBasis.CLUSTER
    return api.Estimate(start_at=start_at, latest_at=None, basis=basis)
