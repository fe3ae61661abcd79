"""Pages of a queue as data, and the runs of clusters with their own queue. Called by `queueing`.

Running runs come first, then those waiting in the cluster's queue, in its expected start order if known; last
the runs that are not submitted yet.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from tarmac import api
from tarmac.control.delegation import capacity_of, queue_of
from tarmac.control.queue.lines import Arrays, Member, lines_of, page_of
from tarmac.control.queue.reordering import PoolKey
from tarmac.control.state.control_state import ControlState
from tarmac.model.cluster import DEFAULT_POOL, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Attempt, Run
from tarmac.model.summary import RunSummary
from tarmac.sched import EstimateBasis, Part

Delegated = tuple[Run, Attempt | None]

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
) -> Iterator[api.QueuePool]:
    """This part of the queue of each of the `pools` with running or waiting runs.

    With `arrays`, one line for all members of an array.
    """
    if control.engines.alone:
        return
    queues: dict[PoolKey, list[Delegated]] = {}
    for each in _delegated(control):
        queues.setdefault(_key(control, *each), []).append(each)
    for key, runs in queues.items():
        if pools(key):
            yield _page(key, sorted(runs, key=_order), part, arrays)


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


def _delegated(control: ControlState) -> Iterable[Delegated]:
    with control.lock:
        run_cache = control.run_cache()
        waiting: list[Delegated] = [
            (run, None) for runs in run_cache.for_delegates.values() for run in runs.values()
        ]
        submitted: list[Delegated] = [
            (run_cache.runs[run_id], attempt)
            for run_id, attempt in run_cache.attempts.items()
            if attempt.delegated
        ]
    return [*submitted, *waiting]


def _key(control: ControlState, run: Run, attempt: Attempt | None) -> PoolKey:
    if attempt is not None:
        return attempt.allocation.cluster, attempt.allocation.pool
    engine = control.engines.delegate_of(run.spec.target.cluster)
    offer = queue_of(run, engine) if engine is not None else None
    named = run.place.pool or run.spec.target.pool or DEFAULT_POOL
    return run.spec.target.cluster or "", named if offer is None else offer.pool


def _order(each: Delegated) -> tuple[object, ...]:
    run, attempt = each
    if attempt is None:
        return 2, -run.place.priority, run.queued_at or run.created_at, run.id
    if attempt.allocated_at is not None:
        return 0, 0, attempt.allocated_at, run.id
    expected_at = attempt.native.expected_start_at if attempt.native is not None else None
    return 1, expected_at if expected_at is not None else float("inf"), attempt.created_at, run.id


def _page(key: PoolKey, runs: list[Delegated], part: Part, arrays: Arrays | None) -> api.QueuePool:
    placed = list(enumerate(runs))
    mine = [(place, each) for place, each in placed if part.owner in (None, each[0].user)]
    later = [(place, each) for place, each in mine if place > part.after]
    shown = later if part.limit is None or arrays is not None else later[: part.limit]
    following = later[len(shown)][0] if len(shown) < len(later) else None
    places = {place for place, _ in shown}
    shown += [(place, each) for place, each in placed if each[0].id in part.also and place not in places]
    members = (_member(place, *each) for place, each in sorted(shown, key=itemgetter(0)))
    if arrays is None:
        lines = [[each] for each in members]
    else:
        lines, following = lines_of(members, part.limit)
    pool = Pool(cluster=key[0], name=key[1])
    return page_of(pool, len(mine), lines, _estimate, following=following, arrays=arrays)


def _member(place: int, run: Run, attempt: Attempt | None) -> Member:
    if attempt is None:
        return Member(place, run, 0, run.spec.slots)
    acquired = attempt.current_allocation.slots if attempt.allocated_at is not None else 0
    return Member(place, run, acquired, run.spec.slots, attempt.native)


def _estimate(member: Member) -> api.Estimate | None:
    if member.run.state not in _WAITING:
        return None
    start_at = member.native.expected_start_at if member.native is not None else None
    basis = EstimateBasis.UNKNOWN if start_at is None else EstimateBasis.CLUSTER
    return api.Estimate(start_at=start_at, latest_at=None, basis=basis)
