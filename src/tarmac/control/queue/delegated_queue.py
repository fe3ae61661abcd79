"""Pages of a queue as data, and the runs of clusters with their own queue. Called by `queueing`.

Running runs come first, then those waiting in the cluster's queue, in its expected start order if known; last
the runs that are not submitted yet.
"""

from collections.abc import Iterable, Iterator

from tarmac import api
from tarmac.control.delegation import capacity_of, queue_of
from tarmac.control.state.control_state import ControlState
from tarmac.model.cluster import DEFAULT_POOL, Pool
from tarmac.model.codec import common, replace
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import NativeStatus
from tarmac.model.run import Attempt, Run
from tarmac.model.summary import RunSummary
from tarmac.sched import EstimateBasis, Part

Line = tuple[Run, Attempt | None]


def queue_of_pool(pool: Pool, *, total: int = 0, runs: tuple[api.QueueEntry, ...] = ()) -> api.QueuePool:
    """A part of the queue of a pool; `total` counts all runs of the requested queue."""
    return api.QueuePool(
        cluster=pool.cluster,
        pool=pool.name,
        policy=pool.policy,
        preemption=pool.preemption,
        total=total,
        runs=runs,
    )


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
    control: ControlState, part: Part, *, cluster: str | None = None, pool: str | None = None
) -> Iterator[api.QueuePool]:
    """This part of the queue of each pool (of this name, of this cluster) with running or waiting runs."""
    if control.engines.alone:
        return
    lines: dict[tuple[str, str], list[Line]] = {}
    for line in _lines(control):
        lines.setdefault(_key(control, *line), []).append(line)
    for key, members in lines.items():
        if cluster in (None, key[0]) and pool in (None, key[1]):
            yield _page(key, sorted(members, key=_order), part)


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


def _lines(control: ControlState) -> Iterable[Line]:
    with control.lock:
        run_cache = control.run_cache()
        waiting: list[Line] = [
            (run, None) for runs in run_cache.for_delegates.values() for run in runs.values()
        ]
        submitted: list[Line] = [
            (run_cache.runs[run_id], attempt)
            for run_id, attempt in run_cache.attempts.items()
            if attempt.delegated
        ]
    return [*submitted, *waiting]


def _key(control: ControlState, run: Run, attempt: Attempt | None) -> tuple[str, str]:
    if attempt is not None:
        return attempt.allocation.cluster, attempt.allocation.pool
    engine = control.engines.delegate_of(run.spec.target.cluster)
    offer = queue_of(run, engine) if engine is not None else None
    named = run.place.pool or run.spec.target.pool or DEFAULT_POOL
    return run.spec.target.cluster or "", named if offer is None else offer.pool


def _order(line: Line) -> tuple[object, ...]:
    run, attempt = line
    if attempt is None:
        return 2, -run.place.priority, run.queued_at or run.created_at, run.id
    if attempt.allocated_at is not None:
        return 0, 0, attempt.allocated_at, run.id
    expected_at = attempt.native.expected_start_at if attempt.native is not None else None
    return 1, expected_at if expected_at is not None else float("inf"), attempt.created_at, run.id


def _page(key: tuple[str, str], lines: list[Line], part: Part) -> api.QueuePool:
    mine = [
        (place, line) for place, line in enumerate(lines) if part.owner is None or line[0].user == part.owner
    ]
    later = [(place, line) for place, line in mine if place > part.after]
    shown = later if part.limit is None else later[: part.limit]
    places = {place for place, _ in shown}
    also = [
        (place, line) for place, line in enumerate(lines) if line[0].id in part.also and place not in places
    ]
    entries = tuple(_entry(place, *line) for place, line in sorted([*shown, *also], key=lambda each: each[0]))
    pool = Pool(cluster=key[0], name=key[1])
    return queue_of_pool(pool, total=len(mine), runs=entries)


def queue_entry(
    place: int,
    run: Run,
    *,
    acquired: int,
    needed: int,
    estimate: api.Estimate | None,
    native: NativeStatus | None = None,
) -> api.QueueEntry:
    """The line of a run in a queue, at `place` from 0."""
    return api.QueueEntry(
        number=place + 1,
        **common(api.QueueEntry, run),
        mode=run.spec.mode,
        priority=run.place.priority,
        weight=run.place.weight,
        submitted_at=run.created_at,
        slots_acquired=acquired,
        slots_needed=needed,
        estimate=estimate,
        retry_at=None if run.retry is None or run.state is not RunState.QUEUED else run.retry.at,
        native=native,
    )


def _entry(place: int, run: Run, attempt: Attempt | None) -> api.QueueEntry:
    native = attempt.native if attempt is not None else None
    holds = attempt is not None and attempt.allocated_at is not None
    estimate = None
    if not holds:
        start_at = native.expected_start_at if native is not None else None
        basis = EstimateBasis.UNKNOWN if start_at is None else EstimateBasis.CLUSTER
        estimate = api.Estimate(start_at=start_at, latest_at=None, basis=basis)
    acquired = attempt.current_allocation.slots if attempt is not None and holds else 0
    return queue_entry(place, run, acquired=acquired, needed=run.spec.slots, estimate=estimate, native=native)
