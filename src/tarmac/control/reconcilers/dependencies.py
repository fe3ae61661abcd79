"""Dependencies: records the ends that queued runs wait for. Run by the schedule loop, as its first step.

This happens before a run is placed, or given to the queue of a cluster, and is therefore the same on every
engine. Runs that are not live here have ended, were removed, or belong to another server: the store decides.

    the other run          condition `completed`           condition `ended`
    --------------------   -----------------------------   ------------------
    has completed          met                             met
    has failed, was        the run ends failed, with that  met
    stopped                as its cause
    was removed before     the run ends failed: the end    met: only a run that has ended
    that was seen          of the other is unknown         can be removed
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tarmac.control.decisions.steps import finished
from tarmac.control.state.control_state import ControlState
from tarmac.model.changes import RunStep, StepEvent
from tarmac.model.dependency import AwaitedRun, Condition
from tarmac.model.lifecycle import RunEvent, RunState, step
from tarmac.model.ports import Store
from tarmac.model.record import replace
from tarmac.model.run import Cause, CauseCode, Outcome, Run
from tarmac.model.serving import Lease


def dependency_pass(control: ControlState, lease: Lease | None) -> None:
    """Record every end that a queued run waits for; end runs whose condition can no longer be met."""
    with control.lock:
        run_cache = control.run_cache()
        over = run_cache.waiters.of_others(run_cache.is_live)
        waiting = {run_id: run_cache.runs[run_id] for waiters in over.values() for run_id in waiters}
    if not over:
        return
    ends = _ends(control.store, over)
    now = control.clock.now()
    steps = [_meet_dependencies(run, ends, now) for run in waiting.values()]
    control.commit([step for step in steps if step is not None], lease=lease)


def _ends(store: Store, awaited: Collection[str]) -> dict[str, _End | None]:
    """The known ends of these runs and arrays; None for a removed one."""
    found = store.load_runs(list(awaited))
    ends: dict[str, _End | None] = {}
    for identifier in awaited:
        run = found.get(identifier)
        counts = store.array_counts(identifier) if run is None else {}
        end = _end_of(run) if run is not None else _end_of_array(counts) if counts else None
        if end is not None or (run is None and not counts):
            ends[identifier] = end
    return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The end of a run, or of all members of an array: completed only if each is. `text` gives the reason if
    not.
    """

    outcome: Outcome
    text: str = ""


def _end_of(run: Run) -> _End | None:
    """The end of a run; None if it has not ended."""
    if run.outcome is None:
        return None
    because = f": {run.cause.message}" if run.cause is not None else ""
    return _End(
        outcome=run.outcome, text="was stopped" if run.outcome is Outcome.STOPPED else f"failed{because}"
    )


def _end_of_array(counts: Mapping[tuple[RunState, Outcome | None], int]) -> _End | None:
    """The end of an array, from its number of members per state; None if some have not ended."""
    if any(outcome is None for _, outcome in counts):
        return None
    others = sum(count for (_, outcome), count in counts.items() if outcome is not Outcome.COMPLETED)
    total = sum(counts.values())
    return _End(
        outcome=Outcome.FAILED if others else Outcome.COMPLETED,
        text=f"did not: {others} of {total} members failed or were stopped",
    )


def _meet_dependencies(run: Run, ends: Mapping[str, _End | None], now: float) -> RunStep | None:
    """The step that the ends of these runs (None: removed) require; None if the run awaits none of them."""
    over = [each for each in run.awaits if each.run_id in ends]
    for each in over:
        if not _is_met(each, ends[each.run_id]):
            return finished(run, Outcome.FAILED, _cause(each, ends[each.run_id]), now)
    if not over:
        return None
    met = tuple(replace(each, met=True) if each in over else each for each in run.dependencies)
    events = tuple(
        StepEvent(event=RunEvent.DEPENDENCY_MET, at=now, detail=_detail(each, ends[each.run_id]))
        for each in over
    )
    assert run.state is RunState.QUEUED, "whoever waits for another run is queued"
    state = step(run.state, RunEvent.DEPENDENCY_MET)
    after = replace(run, state=state, seq=run.seq + len(events), dependencies=met)
    return RunStep(before=run, after=after, events=events)


def _is_met(awaited: AwaitedRun, end: _End | None) -> bool:
    if awaited.condition is Condition.ENDED:
        return True
    return end is not None and end.outcome is Outcome.COMPLETED


def _cause(awaited: AwaitedRun, end: _End | None) -> Cause:
    text = "was removed before it was seen how it ended" if end is None else end.text
    message = f"it was to start after {awaited} has completed, and that {text}"
    return Cause(code=CauseCode.DEPENDENCY_FAILED, message=message)


def _detail(awaited: AwaitedRun, end: _End | None) -> dict[str, str]:
    detail = {"run": awaited.run_id, "name": awaited.name}
    return detail if end is None else detail | {"outcome": end.outcome.value}
