"""Explains the state of a run in sentences, for `tarmac why`. Called by `service`."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple, replace

from tarmac import sched
from tarmac.api.placement import NamedRun, Why, WhyEstimate
from tarmac.control.burst.telling import Explanation
from tarmac.control.decisions.idleness import IDLE
from tarmac.control.limits import limit_book, request_of
from tarmac.control.serving import whereabouts
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.model.actor import Sight
from tarmac.model.array import AwaitedRun, Condition
from tarmac.model.codec import common
from tarmac.model.lifecycle import Mode, RunEvent, RunState
from tarmac.model.loss import loss_of
from tarmac.model.progress import CauseCode, NativeStatus, Outcome, loss_text
from tarmac.model.resources import ReasonCode
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Repository

NAMES_SHOWN = 4
"""The number of awaited runs that are named."""


def why(
    control: ControlState, run: Run, sight: Sight | None = None, rented: Explanation | None = None
) -> Why:
    """Explain the current state of the run; names other runs only if `sight` covers them (None: all).

    `rented` explains a wait for rented machines.
    """
    if run.server != control.server and run.state is not RunState.ENDED:
        who = whereabouts(control.store, run.server, now=control.clock.now())
        return _why(run, f"{run.state}: it is looked after by {who}")
    if rented is not None:
        lost, previous = _lost(control, run), _previous(control, run)
        return _why(run, rented.headline, unblocked_by=rented.then, lost=lost, previous=previous)
    engine = control.engines.delegate_of(run.spec.target.cluster)
    if run.state is RunState.QUEUED and engine is not None:
        headline, lost = _before_the_cluster(control, run, engine), _lost(control, run)
        return _why(run, headline, awaits=len(run.awaits), lost=lost, previous=_previous(control, run))
    if run.state is RunState.QUEUED:
        answer = replace(_why_queued(control, run, sight), lost=_lost(control, run))
        if run.awaits:
            return replace(answer, headline=_awaiting(control, run), reasons=())
        if (reason := next(iter(answer.reasons), None)) and reason.code is ReasonCode.GROUP_LIMIT:
            return replace(answer, headline=f"queued: {reason.text}")
        if reason is not None and reason.code is ReasonCode.LIMIT:
            known = answer.estimate is not None and answer.estimate.start_at is not None
            estimate = answer.estimate if known else None
            return replace(answer, headline=f"queued: {reason.text}", reasons=(), estimate=estimate)
        if any(reason.code is ReasonCode.RESTS for reason in answer.reasons):
            return replace(answer, headline=_pausing(control, run), estimate=_after_pause(run, answer))
        return answer
    with control.lock:
        attempt = control.run_cache().attempts.get(run.id)
    lost = _lost(control, run) if run.state in (RunState.PAUSED, RunState.SUBMITTED) else ""
    estimate, advice = None, ""
    if run.state is RunState.SUBMITTED and attempt is not None:
        estimate = _native_estimate(attempt, control.clock.now())
        advice = attempt.native.advice if attempt.native is not None else ""
    previous = _previous(control, run) if run.state is RunState.SUBMITTED else ""
    headline = _headline(control, run, attempt)
    return _why(run, headline, lost=lost, previous=previous, estimate=estimate, unblocked_by=advice)


def _why(run: Run, headline: str, **more: Any) -> Why:
    return Why(run_id=run.id, state=run.state, headline=headline, **more)


def _before_the_cluster(control: ControlState, run: Run, engine: AttachedEngine) -> str:
    """The reason why a run is not in the queue of its cluster yet."""
    if run.awaits:
        return _awaiting(control, run)
    if run.retry is not None and run.retry.at > control.clock.now():
        return _pausing(control, run)
    with control.lock:
        over_limit = control.run_cache().limits.holds_back(run.id)
    if over_limit is not None:
        return f"queued: {over_limit}"
    book = limit_book(control)
    exceeded = book.exceeded(request_of(control, run), run.spec.time_limit_s) if book is not None else None
    if exceeded is not None:
        return f"queued: {exceeded.text}. {exceeded.raised_by}"
    reason = engine.trouble(control.clock.now())
    trouble = f": {reason}" if reason else ""
    return f"queued: it is submitted to cluster {run.spec.target.cluster} once more is known of it{trouble}"


def _in_its_queue(control: ControlState, run: Run, attempt: Attempt | None) -> str:
    """The run's status in the queue of its cluster, in the cluster's own words."""
    cluster = attempt.allocation.cluster if attempt is not None else run.spec.target.cluster or ""
    native = attempt.native if attempt is not None else None
    trouble = control.engines.at(cluster).trouble(control.clock.now())
    if native is None:
        waits = f"submitted: it is on its way to the queue of cluster {cluster}"
    else:
        because = f": {native.because}" if native.because else ""
        at = f", place {native.place} of {native.waiting}" if native.place is not None else ""
        waits = f"submitted: {_as_submitted(native)} in the queue of cluster {cluster}{at}{because}"
    return f"{waits}. The cluster does not answer now: {trouble}" if trouble else waits


def _as_submitted(native: NativeStatus) -> str:
    state = f", {native.state}," if native.state else ""
    waits = "never starts as things are" if native.stuck else "waits"
    return f"it {waits} as job {native.id}{state}"


def _native_estimate(attempt: Attempt, now: float) -> WhyEstimate | None:
    start_at = attempt.native.expected_start_at if attempt.native is not None else None
    if start_at is None:
        return None
    text = f"Cluster {attempt.allocation.cluster} expects it to start {_in(start_at - now)}."
    return WhyEstimate(start_at=start_at, latest_at=None, basis=sched.EstimateBasis.CLUSTER, text=text)


def _after_pause(run: Run, answer: Why) -> WhyEstimate | None:
    """The likely start of a run that starts right after its pause; there is no other reason then."""
    estimate = answer.estimate
    if estimate is None or estimate.start_at is None or run.retry is None:
        return estimate
    return None if estimate.start_at <= run.retry.at + 1.0 else estimate


def _awaiting(control: ControlState, run: Run) -> str:
    """The runs that have to end before it may start, and their current state."""
    first = run.awaits[:NAMES_SHOWN]
    found = control.store.load_runs([each.run_id for each in first])
    texts = [_awaited(each, found.get(each.run_id)) for each in first]
    more = len(run.awaits) - len(first)
    return f"queued: it starts after {' and '.join(texts)}" + (f" and {more} more" if more else "")


def _awaited(awaited: AwaitedRun, other: Run | None) -> str:
    end = "completed" if awaited.condition is Condition.COMPLETED else "ended"
    return f"{awaited} has {end}" + (f", which is {other.state}" if other is not None else "")


def _pausing(control: ControlState, run: Run) -> str:
    """The end of the last attempt of a run that pauses before its next try."""
    last = control.store.attempts(run.id)[-1]
    because = f": {last.cause.message}" if last.cause is not None else ""
    if last.outcome is Outcome.FAILED:
        which = f"retry {run.failures} of {run.spec.retries}"
    else:
        which = f"attempt {run.attempt + 1}; the platform's faults cost no retry"
    return f"queued: it pauses before {which}, because attempt {last.number} {last.outcome}{because}"


def _previous(control: ControlState, run: Run) -> str:
    """The end of the previous attempt, if its cluster ended it: this explains the new wait."""
    over = (
        [each for each in control.store.attempts(run.id) if each.outcome is not None] if run.attempt else []
    )
    if not over or over[-1].outcome not in (Outcome.PREEMPTED, Outcome.LOST) or over[-1].cause is None:
        return ""
    return f"attempt {over[-1].number} was {over[-1].outcome}: {over[-1].cause.message}"


def _lost(control: ControlState, run: Run) -> str:
    """The work that its last attempt lost."""
    lost = loss_of(control.store.attempts(run.id)) if run.attempt else None
    return loss_text(*astuple(lost)) if lost is not None else ""


def _why_queued(control: ControlState, run: Run, sight: Sight | None) -> Why:
    now = control.clock.now()
    try:
        answer, scope = control.scheduler_state.ask(
            lambda ledger: (sched.explain(ledger, run.id, now), sched.scope_of_run(ledger, run.id, now))
        )
    except KeyError:
        return _why(run, "it was just queued or placed: look again")
    if isinstance(answer, sched.Placement):
        nodes = ", ".join(answer.allocation.nodes)
        return _why(run, f"nothing holds it back: it starts now on {nodes}")
    if isinstance(answer, sched.Refusal):
        never = answer.code is CauseCode.NEVER_FITS
        unknown = control.engines.with_unknown_nodes(run.spec.target.cluster) if never else ()
        if unknown:
            headline = f"queued: it waits until the nodes of cluster {' and '.join(unknown)} are known"
            check = f"tarmac clusters check {unknown[0]} says what is missing."
            return _why(run, headline, unblocked_by=check)
        headline = "it can never start here" if never else "it may not wait, and there is no room now"
        if never and run.spec.may_rent:
            headline = "queued: no node here can hold it, so it waits until machines are rented for it"
        return _why(run, headline, reasons=answer.reasons, largest=answer.largest)
    estimate = control.estimator.estimates(scope, now)[run.id]
    slots = run.spec.slots
    slots_text = f"{slots} slot{'s' if slots != 1 else ''}" if slots else "a node"
    return _why(
        run,
        f"queued: it waits for {slots_text}",
        reasons=answer.reasons,
        ahead=answer.ahead,
        ahead_first=_named(control, answer.ahead_first, sight),
        awaits=len(answer.awaits),
        awaits_first=_named(control, answer.awaits[:NAMES_SHOWN], sight),
        unblocked_by=answer.unblocked_by,
        estimate=WhyEstimate(**common(WhyEstimate, estimate), text=_estimate_text(estimate, now)),
    )


def _named(control: ControlState, run_ids: Sequence[str], sight: Sight | None) -> tuple[NamedRun, ...]:
    """Runs with their names, if they are still live and `sight` covers them."""
    with control.lock:
        runs = control.run_cache().runs
        live = [runs[run_id] for run_id in run_ids if run_id in runs]
    seen = (run for run in live if sight is None or sight.covers(run.user, run.project))
    return tuple(NamedRun(id=run.id, name=run.name) for run in seen)


def _estimate_text(estimate: sched.Estimate, now: float) -> str:
    if estimate.basis is sched.EstimateBasis.TOO_FAR:
        return "When it starts is not known: too much happens before it."
    if estimate.start_at is None:
        return (
            "When it starts is not known: something that it waits for has no time limit, "
            "and no run like it has ended yet."
        )
    likely = _in(estimate.start_at - now)
    if estimate.basis is sched.EstimateBasis.TIME_LIMITS:
        over = "time limits, turns and blocks are over"
        return f"It is expected to start {likely}, when {over}; sooner if runs end before."
    text = f"It is likely to start {likely}, judging by how long runs took so far"
    if estimate.latest_at is None:
        return f"{text}; not everything that it waits for has a time limit."
    return f"{text}; {_in(estimate.latest_at - now)} at the latest, when time limits are over."


def _in(seconds: float) -> str:
    return f"in about {sched.duration(seconds)}" if seconds >= 1 else "at once"


_LEAVING = {
    RunState.PAUSING: "it was asked to pause",
    RunState.PREEMPTING: "it is preempted and queues again",
    RunState.STOPPING: "it was asked to stop",
}


def _leaving(control: ControlState, run: Run, attempt: Attempt | None, where: str) -> str:
    """The remaining steps of a run that was asked to leave."""
    if attempt is not None and attempt.allocated_at is None:
        step = f"its job is taken out of the queue of cluster {attempt.allocation.cluster}"
    else:
        step = f"its workers have up to {run.spec.pause.grace_s:g} s to leave{where}"
    return f"{step}{_silence(control, attempt)}"


def _headline(control: ControlState, run: Run, attempt: Attempt | None) -> str:
    placed = attempt is not None and attempt.allocated_at is not None
    where = f" on {', '.join(attempt.allocation.nodes)}" if attempt is not None and placed else ""
    match run.state:
        case RunState.PENDING:
            if (failure := control.code_failures.get(run.id)) is not None:
                return f"its code is not here yet, and is tried for again: {failure}"
            return f"its code is being {'fetched' if isinstance(run.spec.code, Repository) else 'copied'}"
        case RunState.SUBMITTED:
            return f"{_in_its_queue(control, run, attempt)}{_without_blocks(run, attempt)}"
        case RunState.STARTING:
            return f"{_being_started(run, attempt)}{where}{_silence(control, attempt)}"
        case RunState.RUNNING:
            goes_on = _silence(control, attempt, "The run goes on.")
            return f"it runs{where}{_idle(control, attempt)}{goes_on}{_without_blocks(run, attempt)}"
        case RunState.PAUSING | RunState.PREEMPTING | RunState.STOPPING:
            return f"{_LEAVING[run.state]}: {_leaving(control, run, attempt, where)}"
        case RunState.PAUSED:
            return f"it is paused{_idle_pause(control, run)} until it is resumed: tarmac resume {run.id}"
        case _:
            reason = f": {run.cause.message}" if run.cause is not None else ""
            return f"it ended, {run.outcome}{reason}"


def _idle(control: ControlState, attempt: Attempt | None) -> str:
    """The time for which a run uses none of its slots, if its owner was notified."""
    idle = None if attempt is None else control.engines.of(attempt).idle.get(attempt.id)
    if idle is None or not idle.is_reported:
        return ""
    return f", and uses none of its slots for {sched.duration(control.clock.now() - idle.since)} now"


def _idle_pause(control: ControlState, run: Run) -> str:
    """The reason of a pause by the rules of a pool."""
    pauses = [each for each in control.store.events(run.id) if each.event is RunEvent.PAUSE_REQUESTED]
    if not pauses or pauses[-1].detail.get("reason") != IDLE:
        return ""
    return f", because it used none of its slots for {sched.duration(pauses[-1].detail['idle_s'])},"


def _without_blocks(run: Run, attempt: Attempt | None) -> str:
    """The sharing of an interruptible run on a cluster with its own queue, and therefore without blocks of
    time.
    """
    if run.spec.mode is not Mode.INTERRUPTIBLE or attempt is None or not attempt.delegated:
        return ""
    return (
        f". Cluster {attempt.allocation.cluster} gives no blocks of time: its job keeps its nodes until it "
        "ends, its time is over, or it is preempted there for another job; then the run is submitted again, "
        "and resumes from its checkpoint"
    )


def _being_started(run: Run, attempt: Attempt | None) -> str:
    """The current step of a starting run: the pull of its image, otherwise the start of its workers."""
    image = attempt.milestones.image if attempt is not None else None
    if image is None or image.digest or not image.source:
        return "its workers are being started"
    come, total = (f"{count / 2**20:,.1f}" for count in (image.fetched_bytes, image.total_bytes))
    name = run.spec.environment.image
    return f"its image {name} is being pulled from {image.source} ({come} of {total} MiB)"


def _silence(control: ControlState, attempt: Attempt | None, more: str = "") -> str:
    """The consequence of an unreachable engine for an attempt."""
    reason = None if attempt is None else control.engines.of(attempt).trouble(control.clock.now())
    return f". Its cluster does not answer now: {reason}. {more}".rstrip() if reason else ""
