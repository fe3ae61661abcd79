"""Determined's words for the state of a run, and the columns of its list of experiments.

Called by the dialect and the display.
"""

from collections.abc import Mapping, Sequence

from tarmac.dialects.dialect import ListColumn, Report
from tarmac.dialects.priorities import Scale
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.systems.determined.identity import experiment_id
from tarmac.systems.listing import report_of, utc_time

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


def time_text(at: float | None) -> str:
    """A time in UTC, or that there is none."""
    return "N/A" if at is None else f"{utc_time(at)}+0000"


COLUMNS: Sequence[ListColumn] = (
    ListColumn("ID", lambda run, number: str(number or experiment_id(run.id)), sort="id"),
    ListColumn("Owner", lambda run, _: run.user, sort="user"),
    ListColumn("Name", lambda run, _: run.name, sort="name"),
    ListColumn("Parent ID", lambda _run, _: ""),
    ListColumn("State", lambda run, _: status(report_of(run)), sort="status"),
    ListColumn("Progress", lambda run, _: "100.00%" if run.outcome is Outcome.COMPLETED else "N/A"),
    ListColumn("Started", lambda run, _: time_text(run.started_at), sort="started_at"),
    ListColumn("Ended", lambda run, _: time_text(run.ended_at), sort="ended_at"),
    ListColumn("Resource Pool", lambda run, _: run.pool or "", sort="pool"),
)
