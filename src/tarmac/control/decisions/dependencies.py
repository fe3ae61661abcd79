"""What the ends of other runs mean for a run that waits for them: one pure function.

    the other run          condition `completed`           condition `ended`
    --------------------   -----------------------------   ------------------
    has completed          met                             met
    has failed, was        the run ends failed, with that  met
    stopped                as its cause
    was removed before     likewise: nobody knows how it   met: only a run that has ended
    that was seen          ended                           can be removed

Called by the pass over dependencies.
"""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.control.decisions.steps import finished
from tarmac.model.changes import RunStep, StepEvent
from tarmac.model.copying import changed
from tarmac.model.dependency import AwaitedRun, Condition
from tarmac.model.lifecycle import RunEvent, RunState, step
from tarmac.model.run import Cause, CauseCode, Outcome, Run


def meet_dependencies(run: Run, others: Mapping[str, Run | None], now: float) -> RunStep | None:
    """The step that these other runs, as they are now (None: removed), call for; None: nothing is new."""
    over = {run_id: other for run_id, other in others.items() if other is None or other.outcome is not None}
    ends = [each for each in run.awaits if each.run_id in over]
    for each in ends:
        if not _is_met(each, over[each.run_id]):
            return finished(run, Outcome.FAILED, _cause(each, over[each.run_id]), now)
    if not ends:
        return None
    met = tuple(changed(each, met=True) if each in ends else each for each in run.dependencies)
    events = tuple(
        StepEvent(event=RunEvent.DEPENDENCY_MET, at=now, detail=_detail(each, over[each.run_id]))
        for each in ends
    )
    assert run.state is RunState.QUEUED, "whoever waits for another run is queued"
    state = step(run.state, RunEvent.DEPENDENCY_MET)
    after = changed(run, state=state, seq=run.seq + len(events), dependencies=met)
    return RunStep(before=run, after=after, events=events)


def _is_met(awaited: AwaitedRun, other: Run | None) -> bool:
    if awaited.condition is Condition.ENDED:
        return True
    return other is not None and other.outcome is Outcome.COMPLETED


def _cause(awaited: AwaitedRun, other: Run | None) -> Cause:
    if other is None:
        text = "was removed before it was seen how it ended"
    else:
        text = "was stopped" if other.outcome is Outcome.STOPPED else "failed"
        if other.cause is not None and other.outcome is Outcome.FAILED:
            text += f": {other.cause.message}"
    message = f"it was to start after {awaited} has completed, and that {text}"
    return Cause(code=CauseCode.DEPENDENCY_FAILED, message=message)


def _detail(awaited: AwaitedRun, other: Run | None) -> dict[str, str]:
    detail = {"run": awaited.run_id, "name": awaited.name}
    return detail if other is None or other.outcome is None else detail | {"outcome": other.outcome.value}
