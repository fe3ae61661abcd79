"""MCLI's words for the state of a run, of both its eras, and the columns of `mcli get runs`, as in its
documentation. Used by the dialect, and by the display.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from enum import StrEnum

from tarmac.dialects.dialect import ListColumn, Report
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import CauseCode, Outcome
from tarmac.systems.listing import report_of


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


NONE = "-"


def columns(zone: tzinfo | None) -> Sequence[ListColumn]:
    """The columns with times of this zone (None: the local one)."""
    return (
        ListColumn("NAME", lambda run, _: run.name, sort="name"),
        ListColumn("GPU_NUM", lambda run, _: str(run.slots), sort="slots"),
        ListColumn("CREATED_TIME", lambda run, _: when(run.created_at, zone), sort="created_at"),
        ListColumn("START_TIME", lambda run, _: when(run.started_at, zone), sort="started_at"),
        ListColumn("END_TIME", lambda run, _: when(run.ended_at, zone), sort="ended_at"),
        ListColumn("STATUS", lambda run, _: status(report_of(run)).value, sort="status"),
    )


def when(at: float | None, zone: tzinfo | None = None) -> str:
    """A time as MCLI prints it."""
    return NONE if at is None else datetime.fromtimestamp(at).astimezone(zone).strftime("%Y-%m-%d %I:%M %p")
