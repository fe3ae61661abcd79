"""Determined's words for the state of a run. Called by the dialect and the display."""

from collections.abc import Mapping

from tarmac.dialects.dialect import Report
from tarmac.dialects.priorities import Scale
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome

_ENDED: Mapping[Outcome | None, str] = {
    Outcome.COMPLETED: "COMPLETED",
    Outcome.STOPPED: "CANCELED",
    Outcome.FAILED: "ERROR",
}
_LIVE: Mapping[RunState, str] = {
    RunState.PENDING: "QUEUED",
    RunState.QUEUED: "QUEUED",
    RunState.SUBMITTED: "QUEUED",
    RunState.STARTING: "STARTING",
    RunState.RUNNING: "RUNNING",
    RunState.PAUSING: "PAUSED",
    RunState.PAUSED: "PAUSED",
    RunState.PREEMPTING: "QUEUED",
    RunState.STOPPING: "STOPPING_CANCELED",
}
"""An experiment is PAUSED as soon as a user requests it; a preempted one is queued again."""


_WAITS = (RunState.PENDING, RunState.QUEUED, RunState.SUBMITTED)


def status(report: Report) -> str:
    """The state of the experiment."""
    return _ENDED.get(report.outcome, "ERROR") if report.state is RunState.ENDED else _LIVE[report.state]


def queue_word(state: RunState) -> str | None:
    """The state in the job queue; None for runs that the queue does not list."""
    if state in (RunState.PAUSED, RunState.PAUSING, RunState.ENDED):
        return None
    return "STATE_QUEUED" if state in _WAITS else "STATE_SCHEDULED"


FIRST, USUAL, LAST = 1, 42, 99
SCALE = Scale(system="Determined", first=FIRST, usual=USUAL, last=LAST)


def of_tarmac(priority: int) -> int:
    """The priority on Determined's scale, which it may exceed; the inverse of `SCALE.to_tarmac`."""
    return USUAL - priority
