"""Reconcile: looks at what became of the live attempts and records it. Run by the reconcile loop.

News from the engine name the attempts worth a look; every so often all of them are looked at, because news
are hints that may be lost.
"""

from __future__ import annotations

from collections.abc import Collection

from tarmac.control.settle import settle
from tarmac.control.world import World
from tarmac.model.changes import Lease, RunStep
from tarmac.model.lifecycle import AttemptState
from tarmac.model.ports import Observation, ObservedState, Reaps
from tarmac.model.run import Cause, CauseCode, Outcome


def reconcile_pass(world: World, lease: Lease | None, only: Collection[str] | None = None) -> list[bool]:
    """Observe the live attempts (`only` those with these ids) and commit what follows."""
    live = world.live(only)
    if not live:
        return []
    observed = dict(world.engine.observe([attempt.id for _, attempt in live]))
    now = world.clock.now()
    decisions: list[RunStep] = []
    for run, attempt in live:
        observation = observed[attempt.id]
        refusal = world.deliveries.refusal(attempt.id)
        if refusal is not None and attempt.state is AttemptState.STARTING:
            observation = refused(refusal)
        step = settle(run, attempt, observation, now)
        if step is None:
            continue
        ended = step.attempt is not None and step.attempt.state is AttemptState.ENDED
        if ended and observation.outcome is Outcome.LOST and isinstance(world.engine, Reaps):
            world.engine.reap(attempt.id)  # before the record: its slots are given away right after
        decisions.append(step)
    return world.commit(decisions, lease=lease)


def refused(reason: str) -> Observation:
    """An attempt that its engine will never take."""
    cause = Cause(code=CauseCode.SETUP_FAILED, message=f"the engine refuses it: {reason}")
    return Observation(state=ObservedState.ENDED, outcome=Outcome.FAILED, cause=cause)
