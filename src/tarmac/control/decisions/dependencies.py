"""The effect of the ends of runs and whole arrays on a run that waits for them: pure functions.

    the other run          condition `completed`           condition `ended`
    --------------------   -----------------------------   ------------------
    has completed          met                             met
    has failed, was        the run ends failed, with that  met
    stopped                as its cause
    was removed before     the run ends failed: the end    met: only a run that has ended
    that was seen          of the other is unknown         can be removed

Called by the pass over dependencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tarmac.control.decisions.steps import finished
from tarmac.model.changes import RunStep, StepEvent
from tarmac.model.copying import changed
from tarmac.model.dependency import AwaitedRun, Condition
from tarmac.model.lifecycle import RunEvent, RunState, step
from tarmac.model.run import Cause, CauseCode, Outcome, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a run, or of all members of an array: completed only if each is. `text` gives the reason if
    not.
    """

    outcome: Outcome
    text: str = ""


def end_of(run: Run) -> End | None:
    """The end of a run; None if it has not ended."""
    if run.outcome is None:
        return None
    because = f": {run.cause.message}" if run.cause is not None else ""
    return End(
        outcome=run.outcome, text="was stopped" if run.outcome is Outcome.STOPPED else f"failed{because}"
    )


def end_of_array(counts: Mapping[tuple[RunState, Outcome | None], int]) -> End | None:
    """The end of an array, from its number of members per state; None if some have not ended."""
    if any(outcome is None for _, outcome in counts):
        return None
    others = sum(count for (_, outcome), count in counts.items() if outcome is not Outcome.COMPLETED)
    total = sum(counts.values())
    return End(
        outcome=Outcome.FAILED if others else Outcome.COMPLETED,
        text=f"did not: {others} of {total} members failed or were stopped",
    )


def meet_dependencies(run: Run, ends: Mapping[str, End | None], now: float) -> RunStep | None:
    """The step that the ends of these runs (None: removed) require; None if the run awaits none of them."""
    over = [each for each in run.awaits if each.run_id in ends]
    for each in over:
        if not _is_met(each, ends[each.run_id]):
            return finished(run, Outcome.FAILED, _cause(each, ends[each.run_id]), now)
    if not over:
        return None
    met = tuple(changed(each, met=True) if each in over else each for each in run.dependencies)
    events = tuple(
        StepEvent(event=RunEvent.DEPENDENCY_MET, at=now, detail=_detail(each, ends[each.run_id]))
        for each in over
    )
    assert run.state is RunState.QUEUED, "whoever waits for another run is queued"
    state = step(run.state, RunEvent.DEPENDENCY_MET)
    after = changed(run, state=state, seq=run.seq + len(events), dependencies=met)
    return RunStep(before=run, after=after, events=events)


def _is_met(awaited: AwaitedRun, end: End | None) -> bool:
    if awaited.condition is Condition.ENDED:
        return True
    return end is not None and end.outcome is Outcome.COMPLETED


def _cause(awaited: AwaitedRun, end: End | None) -> Cause:
    text = "was removed before it was seen how it ended" if end is None else end.text
    message = f"it was to start after {awaited} has completed, and that {text}"
    return Cause(code=CauseCode.DEPENDENCY_FAILED, message=message)


def _detail(awaited: AwaitedRun, end: End | None) -> dict[str, str]:
    detail = {"run": awaited.run_id, "name": awaited.name}
    return detail if end is None else detail | {"outcome": end.outcome.value}
