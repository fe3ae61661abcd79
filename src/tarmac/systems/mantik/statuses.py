"""MLflow's words for the state of a run, which Mantik shows. Called by the dialect."""

from tarmac.dialects.dialect import Report
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome

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
