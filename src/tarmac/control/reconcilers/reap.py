"""Reap: gives up attempts that were submitted long ago and never began. Run by the engine's own loop."""

from __future__ import annotations

from tarmac.control.decisions.apply_observation import apply_observation
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.model.changes import RunStep
from tarmac.model.ends import lost
from tarmac.model.lifecycle import AttemptState
from tarmac.model.ports import ObservedState
from tarmac.model.serving import Lease

START_LIMIT_S = 120.0
"""The time without a sign of life from its nodes after which an attempt is given up.

An attempt in the queue of a cluster has no nodes yet: it may wait there for days.
"""


def reap_pass(control: ControlState, lease: Lease | None, engine: AttachedEngine) -> list[bool]:
    """Give up attempts that never began; the fault is the platform's, so the run queues again by itself."""
    now = control.clock.now()
    overdue = [
        (run, attempt)
        for run, attempt in control.live_on(engine)
        if attempt.state is AttemptState.STARTING
        and control.starts_here(attempt)
        and now - (attempt.allocated_at or now) > START_LIMIT_S
    ]
    if not overdue:
        return []
    observed = engine.adapter.observe([attempt.id for _, attempt in overdue])
    decisions: list[RunStep] = []
    for run, attempt in overdue:
        seen = observed[attempt.id]
        if seen.state not in (ObservedState.ABSENT, ObservedState.STARTING) or seen.claimed_at is not None:
            continue  # it is alive: setting up may take longer than this
        if engine.reaper is not None:
            engine.reaper.reap(attempt.id)  # this fences its nodes: a runner that starts late ends
        waited_s = now - (attempt.allocated_at or now)
        silent = lost(f"no sign of life from its nodes in {waited_s:.0f} s")
        step = apply_observation(run, attempt, silent, now)
        if step is not None:
            decisions.append(step)
    return control.commit(decisions, lease=lease)
