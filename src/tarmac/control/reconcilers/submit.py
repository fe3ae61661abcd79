"""Submit: gives queued runs to the clusters with their own queue. Run by the schedule loop.

This pass places no run: a run waits in one queue at a time, here that of the cluster. The attempt is recorded
first; the deliver loop of the cluster's engine then submits it. This pass also ends turns of cycle runs.
"""

from __future__ import annotations

from tarmac.control.decisions import steps
from tarmac.control.delegation import request_of
from tarmac.control.reconcilers.schedule import refusal_cause
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.model.changes import RunStep
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Outcome, Run
from tarmac.model.serving import Lease
from tarmac.sched import Preemption, PreemptionReason, Refusal


def submit_pass(control: ControlState, lease: Lease | None) -> float | None:
    """Submit every run for such a cluster, and end turns that are over; returns the time of the next pass."""
    if control.engines.alone:
        return None
    decisions: list[RunStep] = []
    pauses: list[float] = []
    waiting = _waiting(control)
    now = control.clock.now()  # after the runs were read: none of them is later
    for engine, runs in waiting:
        for run in runs:
            if run.retry is not None and run.retry.at > now:
                pauses.append(run.retry.at)
                continue
            step = _step(control, engine, run, now)
            if step is not None:
                decisions.append(step)
    for run, attempt in control.live():
        if attempt.delegated and run.state is RunState.RUNNING and attempt.allotted_s is not None:
            ends_at = (attempt.started_at or now) + attempt.allotted_s
            if ends_at > now:
                pauses.append(ends_at)
            else:
                over = Preemption(run_id=run.id, seq=run.seq, reason=PreemptionReason.TURN_OVER)
                decisions.append(steps.preempt_run(run, attempt, over, now))
    control.commit(decisions, lease=lease)
    return min(pauses, default=None)


def _waiting(control: ControlState) -> list[tuple[AttachedEngine, list[Run]]]:
    """The queued runs for each cluster that places runs itself, in order of importance."""
    with control.lock:
        holds_back = control.run_cache().limits.holds_back
        waiting = {
            cluster: [run for run in runs.values() if not (run.awaits or holds_back(run.id))]
            for cluster, runs in control.run_cache().for_delegates.items()
        }
    return [
        (engine, sorted(runs, key=lambda run: (-run.place.priority, run.queued_at or 0.0, run.id)))
        for cluster, runs in waiting.items()
        if runs and (engine := control.engines.delegate_of(cluster)) is not None
    ]


def _step(control: ControlState, engine: AttachedEngine, run: Run, now: float) -> RunStep | None:
    request = request_of(run, engine, now)
    if isinstance(request, Refusal):
        return steps.finished(run, Outcome.FAILED, refusal_cause(request), now)
    if request is None:
        return None
    token = control.ids.token()
    return steps.placed(run, request, engine=engine.name, token=token, port=None, now=now, home=control.home)
