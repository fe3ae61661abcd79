"""MLflow's words for the state of a run, which Mantik shows, and the columns of its runs.

Called by the dialect and the display. Mantik's documentation has no listing; the fields are those that MLflow
stores for a run.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from tarmac.dialects.dialect import ListColumn, Report
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.systems.listing import report_of

_RUNNING = frozenset({RunState.RUNNING, RunState.PAUSING, RunState.PREEMPTING, RunState.STOPPING})
_OUTCOMES = {
    Outcome.COMPLETED: "FINISHED",
    Outcome.FAILED: "FAILED",
    Outcome.STOPPED: "KILLED",
    Outcome.LOST: "FAILED",
}


def status(report: Report) -> str:
    """The status of the run; one that will run again is scheduled."""
    if report.outcome is not None:
        return _OUTCOMES.get(report.outcome, "SCHEDULED")
    if report.state is RunState.ENDED:
        return "FINISHED"
    return "RUNNING" if report.state in _RUNNING else "SCHEDULED"


def columns(zone: tzinfo | None) -> Sequence[ListColumn]:
    """The columns with times of this zone (None: the local one)."""
    return (
        ListColumn("run_id", lambda run, _: run.id, sort="id"),
        ListColumn("run_name", lambda run, _: run.name, sort="name"),
        ListColumn("status", lambda run, _: status(report_of(run)), sort="status"),
        ListColumn("start_time", lambda run, _: when(run.started_at, zone), sort="started_at"),
        ListColumn("end_time", lambda run, _: when(run.ended_at, zone), sort="ended_at"),
    )


def when(at: float | None, zone: tzinfo | None = None) -> str:
    """A time to the second."""
    return "" if at is None else datetime.fromtimestamp(at).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
