"""Why a run is where it is, in words: for `tarmac why`. Called by `service`."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.control.world import World
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Attempt, CauseCode, Run
from tarmac.sched import Placement, Reason, Refusal, explain


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyEstimate:
    """When it is likely to start, at the latest when, and what that is based on; `text` is for people.

    None: not known. `basis` is a value of `sched.EstimateBasis`.
    """

    start_at: float | None
    latest_at: float | None
    basis: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run, by its id and the name people gave it."""

    run_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What a run waits for. `ahead` counts queued runs ordered before it, `ahead_first` are the first of them.

    `reasons` are one for each node, or for each group of nodes where there are many; `unblocked_by` are
    sentences in one string: what it waits for, then what would start it at once.
    """

    run_id: str
    state: RunState
    headline: str
    reasons: tuple[Reason, ...] = ()
    ahead: int = 0
    ahead_first: tuple[NamedRun, ...] = ()
    unblocked_by: str = ""
    estimate: WhyEstimate | None = None
    largest: str | None = None


def why(world: World, run: Run) -> Why:
    """Explain where the run stands now."""
    if run.state is RunState.QUEUED:
        return _why_queued(world, run)
    with world.lock:
        attempt = world.mirror().attempts.get(run.id)
    return Why(run_id=run.id, state=run.state, headline=_headline(run, attempt))


def _why_queued(world: World, run: Run) -> Why:
    snapshot = world.desk.snapshot()
    if all(candidate.run_id != run.id for candidate in snapshot.queue):
        return Why(run_id=run.id, state=run.state, headline="it was just queued or placed: look again")
    verdict = explain(snapshot, run.id, world.clock.now())
    if isinstance(verdict, Placement):
        nodes = ", ".join(verdict.allocation.nodes)
        return Why(
            run_id=run.id, state=run.state, headline=f"nothing holds it back: it starts now on {nodes}"
        )
    if isinstance(verdict, Refusal):
        never = verdict.code is CauseCode.NEVER_FITS
        return Why(
            run_id=run.id,
            state=run.state,
            headline="it can never start here" if never else "it may not wait, and there is no room now",
            reasons=verdict.reasons,
            largest=verdict.largest,
        )
    slots = run.spec.slots
    wanted = f"{slots} slot{'s' if slots != 1 else ''}" if slots else "a node"
    return Why(
        run_id=run.id,
        state=run.state,
        headline=f"queued: it waits for {wanted}",
        reasons=verdict.reasons,
        ahead=verdict.ahead,
        unblocked_by=verdict.unblocked_by,
    )


def _headline(run: Run, attempt: Attempt | None) -> str:
    where = f" on {', '.join(attempt.allocation.nodes)}" if attempt is not None else ""
    grace_s = run.spec.pause.grace_s
    match run.state:
        case RunState.PENDING:
            return "its code is being copied"
        case RunState.STARTING:
            return f"its workers are being started{where}"
        case RunState.RUNNING:
            return f"it runs{where}"
        case RunState.PAUSING:
            return f"it was asked to pause: its workers have up to {grace_s:g} s to leave{where}"
        case RunState.PREEMPTING:
            return f"it gives way and queues again: its workers have up to {grace_s:g} s to leave{where}"
        case RunState.STOPPING:
            return f"it was asked to stop: its workers have up to {grace_s:g} s to leave{where}"
        case RunState.PAUSED:
            return f"it is paused until somebody resumes it: tarmac resume {run.id}"
        case _:
            reason = f": {run.cause.message}" if run.cause is not None else ""
            return f"it ended, {run.outcome}{reason}"
