"""Reconcile: observes the live attempts of an engine and records the result. Run by its own loop.

The engine's news name attempts to observe; all of them are observed periodically, because news are hints that
may be lost. The same loop gives up attempts that were submitted long ago and never began (`reap_pass`).
"""

from collections.abc import Collection, Mapping, Sequence

from tarmac.control.decisions.apply_observation import apply_observation
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.metric_intake import ReportSink
from tarmac.model.changes import RunStep
from tarmac.model.errors import StorageFull, Unavailable
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.loss import lost
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Cause, CauseCode, Outcome
from tarmac.model.run import Attempt, Run

_NO_MORE_TURNS = (RunState.PAUSING, RunState.STOPPING)

_TAKEN_OVER = lost("another home took its cluster over", CauseCode.NODE_LOST)
"""The observation of attempts started by a home that no longer serves the cluster: no server can see them."""


def reconcile_pass(
    control: ControlState, engine: AttachedEngine, only: Collection[str] | None = None
) -> list[bool]:
    """Observe the live attempts of an engine (`only` those with these ids) and commit the resulting steps."""
    live = control.live_on(engine) if only is None else control.live(only)
    if not live or not engine.observation_rest.over(control.clock.now()):
        return []
    here = [attempt.id for _, attempt in live if control.starts_here(attempt)]
    engine.observation_rest.note_call(control.clock.now())
    try:
        observed = dict(engine.adapter.observe(here))
    except Unavailable as error:
        engine.observation_rest.note_failure(error, control.clock.now())
        raise
    engine.observation_rest.note_answer()
    now = control.clock.now()
    unread = _take_reports(control, engine, live, observed, every=only is None)
    decisions: list[RunStep] = []
    for run, attempt in live:
        observation = observed.get(attempt.id, _TAKEN_OVER)
        if attempt.id in unread:
            continue  # its end is recorded after all its reports, as it is not observed afterwards
        refusal = engine.deliveries.refused.get(attempt.id)
        if refusal is not None and attempt.state is not AttemptState.RUNNING:
            observation = refused(refusal)
        step = apply_observation(run, attempt, observation, now)
        if step is None:
            continue
        ended = step.attempt is not None and step.attempt.state is AttemptState.ENDED
        lost_here = ended and observation.outcome is Outcome.LOST and attempt.id in observed
        # A job that holds its nodes for another turn has to be ended if a person wants no other turn.
        unused = ended and attempt.delegated and run.state in _NO_MORE_TURNS
        unused = unused and observation.outcome is Outcome.PREEMPTED
        if (lost_here or unused) and engine.attachment is not None:
            engine.attachment.reap(attempt.id)  # before the record, which frees its slots for others
        decisions.append(step)
    return control.commit(decisions, lease=control.serving)


def _take_reports(
    control: ControlState,
    engine: AttachedEngine,
    live: Sequence[tuple[Run, Attempt]],
    observed: Mapping[str, Observation],
    *,
    every: bool,
) -> set[str]:
    """Store the workers' reports; returns the ended attempts with further reports to read.

    A stop waits neither for a flood of reports nor for space on a full disk.
    """
    intake = engine.metric_intake
    if intake is None:
        return set()
    seen = [(run, attempt) for run, attempt in live if attempt.id in observed]
    ended = [pair for pair in seen if observed[pair[1].id].state is ObservedState.ENDED]
    going = [pair for pair in seen if observed[pair[1].id].state is ObservedState.RUNNING]
    if every:
        intake.forget_all_but(attempt.id for _, attempt in live)
    sink = ReportSink(control.store.metrics, control.metric_subscribers, control.serving)
    try:
        for attempt_id in intake.take(going, sink):
            engine.idle.pop(attempt_id, None)
        more = intake.take_rest(ended, sink)
    except StorageFull:
        more = {attempt.id for _, attempt in ended}
    return more - {attempt.id for run, attempt in ended if run.state is RunState.STOPPING}


def refused(reason: str) -> Observation:
    """The observation of an attempt that its engine will never take."""
    cause = Cause(code=CauseCode.SETUP_FAILED, message=f"the engine refuses it: {reason}")
    return Observation(state=ObservedState.ENDED, outcome=Outcome.FAILED, cause=cause)


START_LIMIT_S = 120.0
"""The time without a sign of life from its nodes after which an attempt is given up.

An attempt in the queue of a cluster has no nodes yet: it may wait there for days.
"""


def reap_pass(control: ControlState, engine: AttachedEngine) -> None:
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
        return
    observed = engine.adapter.observe([attempt.id for _, attempt in overdue])
    decisions: list[RunStep] = []
    for run, attempt in overdue:
        seen = observed[attempt.id]
        if seen.state not in (ObservedState.ABSENT, ObservedState.STARTING) or seen.claimed_at is not None:
            continue  # it is alive: setting up may take longer than this
        if engine.attachment is not None:
            engine.attachment.reap(attempt.id)  # this fences its nodes: a runner that starts late ends
        waited_s = now - (attempt.allocated_at or now)
        silent = lost(f"no sign of life from its nodes in {waited_s:.0f} s")
        step = apply_observation(run, attempt, silent, now)
        if step is not None:
            decisions.append(step)
    control.commit(decisions, lease=control.serving)
