"""Clusterfudge's words for the state of a launch, and the columns of its page of launches.

Called by the dialect, its display and the drop-in API.
"""

from collections.abc import Mapping, Sequence

from tarmac.dialects.dialect import ListColumn, Report
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.systems.clusterfudge.identity import launch_number
from tarmac.systems.listing import report_of, utc_time

OUTCOMES: Mapping[Outcome, str] = {
    Outcome.COMPLETED: "LAUNCH_STATUS_COMPLETED",
    Outcome.FAILED: "LAUNCH_STATUS_FAILED",
    Outcome.STOPPED: "LAUNCH_STATUS_STOPPED",
}
STATES: Mapping[RunState, str] = {
    RunState.PENDING: "LAUNCH_STATUS_PENDING",
    RunState.QUEUED: "LAUNCH_STATUS_QUEUED",
    RunState.SUBMITTED: "LAUNCH_STATUS_QUEUED",
    RunState.STARTING: "LAUNCH_STATUS_PENDING",
    RunState.RUNNING: "LAUNCH_STATUS_RUNNING",
    RunState.PAUSING: "LAUNCH_STATUS_RUNNING",
    RunState.PAUSED: "LAUNCH_STATUS_PENDING",
    RunState.PREEMPTING: "LAUNCH_STATUS_RUNNING",
    RunState.STOPPING: "LAUNCH_STATUS_RUNNING",
}


def status(report: Report) -> str:
    """The name of the status. A paused run has not ended: it is pending until a user resumes it."""
    if report.state is RunState.ENDED:
        return OUTCOMES.get(report.outcome or Outcome.FAILED, "LAUNCH_STATUS_UNKNOWN")
    return STATES.get(report.state, "LAUNCH_STATUS_UNKNOWN")


COLUMNS: Sequence[ListColumn] = (
    ListColumn("LAUNCH", lambda run, _: str(launch_number(run.id)), right=True),
    ListColumn("NAME", lambda run, _: run.name, sort="name"),
    ListColumn("STATUS", lambda run, _: status(report_of(run)), sort="status"),
    ListColumn("LAUNCHED BY", lambda run, _: run.user, sort="user"),
    ListColumn("SUBMITTED", lambda run, _: utc_time(run.created_at), sort="created_at"),
    ListColumn("RUN", lambda run, _: run.id, sort="id"),
)
