"""MLflow's words for the state of a run, which Mantik shows. Called by the dialect."""

from tarmac.dialects.dialect import Report
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Outcome

_STATES = {
    RunState.PENDING: "SCHEDULED",
    RunState.QUEUED: "SCHEDULED",
    RunState.SUBMITTED: "SCHEDULED",
    RunState.STARTING: "SCHEDULED",
    RunState.RUNNING: "RUNNING",
    RunState.PAUSING: "RUNNING",
    RunState.PREEMPTING: "RUNNING",
    RunState.STOPPING: "RUNNING",
    RunState.PAUSED: "SCHEDULED",
    RunState.ENDED: "FINISHED",
}
_OUTCOMES = {
    Outcome.COMPLETED: "FINISHED",
    Outcome.FAILED: "FAILED",
    Outcome.STOPPED: "KILLED",
    Outcome.LOST: "FAILED",
    Outcome.PREEMPTED: "SCHEDULED",
    Outcome.PAUSED: "SCHEDULED",
}


def status(report: Report) -> str:
    """The status of the run."""
    return _OUTCOMES[report.outcome] if report.outcome is not None else _STATES[report.state]
