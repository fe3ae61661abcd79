"""Submit: gives queued runs to the clusters that have a queue of their own. Run by the schedule loop.

Nothing is placed here: a run waits in one queue at a time, and there it is the cluster's. The attempt is
recorded first; the deliver loop of the cluster's engine takes it there.
"""

from __future__ import annotations

from tarmac.control import steps
from tarmac.control.delegation import capacity_of, request_of
from tarmac.control.engines import AttachedEngine
from tarmac.control.reconcilers.schedule import refusal_cause
from tarmac.control.world import World
from tarmac.model.changes import RunStep
from tarmac.model.run import Outcome, Run
from tarmac.model.serving import Lease
from tarmac.sched import Refusal


def submit_pass(world: World, lease: Lease | None) -> float | None:
    """Submit every run that waits for such a cluster; when to look again, if one pauses before a new try."""
    if world.engines.alone:
        return None
    now = world.clock.now()
    decisions: list[RunStep] = []
    pauses: list[float] = []
    for engine, runs in _waiting(world):
        for run in runs:
            if run.retry is not None and run.retry.at > now:
                pauses.append(run.retry.at)
                continue
            step = _step(world, engine, run, now)
            if step is not None:
                decisions.append(step)
    world.commit(decisions, lease=lease)
    return min(pauses, default=None)


def _waiting(world: World) -> list[tuple[AttachedEngine, list[Run]]]:
    """The queued runs for each cluster that places by itself, those that matter most first."""
    with world.lock:
        waiting = {cluster: list(runs.values()) for cluster, runs in world.run_cache().for_delegates.items()}
    return [
        (engine, sorted(runs, key=lambda run: (-run.place.priority, run.queued_at or 0.0, run.id)))
        for cluster, runs in waiting.items()
        if runs and (engine := world.engines.delegate_of(cluster)) is not None
    ]


def _step(world: World, engine: AttachedEngine, run: Run, now: float) -> RunStep | None:
    request = request_of(run, capacity_of(engine), now)
    if isinstance(request, Refusal):
        return steps.finished(run, Outcome.FAILED, refusal_cause(request), now)
    if request is None:
        return None
    token = world.ids.token()
    return steps.submitted(run, request, engine=engine.name, token=token, now=now, home=world.home)
