"""MCLI's words for the state of a run, of both its eras. Used by the dialect, and by the displays."""

from enum import StrEnum

from tarmac.dialects.dialect import Report
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import CauseCode, Outcome


class Status(StrEnum):
    """A run's displayed status, from the earliest to the latest."""

    UNKNOWN = "Unknown"
    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    TERMINATING = "Terminating"
    COMPLETED = "Completed"
    STOPPED = "Stopped"
    FAILED_PULL = "FailedPull"
    FAILED = "Failed"


_STATES = {
    RunState.PENDING: Status.PENDING,
    RunState.QUEUED: Status.QUEUED,
    RunState.SUBMITTED: Status.QUEUED,
    RunState.STARTING: Status.STARTING,
    RunState.RUNNING: Status.RUNNING,
    RunState.PAUSING: Status.TERMINATING,
    RunState.PAUSED: Status.STOPPED,
    RunState.PREEMPTING: Status.TERMINATING,
    RunState.STOPPING: Status.TERMINATING,
}
_OUTCOMES = {
    Outcome.COMPLETED: Status.COMPLETED,
    Outcome.STOPPED: Status.STOPPED,
    Outcome.FAILED: Status.FAILED,
}


def status(report: Report) -> Status:
    """The status of a run. A preempted run is queued again; a run that a user paused is stopped."""
    if report.state is not RunState.ENDED:
        return _STATES.get(report.state, Status.UNKNOWN)
    if report.outcome is Outcome.FAILED and report.cause is CauseCode.IMAGE_PULL:
        return Status.FAILED_PULL
    return Status.UNKNOWN if report.outcome is None else _OUTCOMES.get(report.outcome, Status.UNKNOWN)
