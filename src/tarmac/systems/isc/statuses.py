"""The ISC's words for the state of an experiment. Used by the dialect and by the display of that name."""

from tarmac.dialects.dialect import Report
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import PLATFORM_FAULTS, Outcome

_STATES = {
    RunState.STARTING: "running",
    RunState.RUNNING: "running",
    RunState.PAUSING: "interrupting",
    RunState.PAUSED: "paused",
    RunState.STOPPING: "cancelling",
}


def status(report: Report) -> str:
    """One of enqueued, burst_staged, running, interrupting, paused, cancelling, cancelled, completed, failed,
    strong_failed.

    In the ISC a waiting run is paused once it has run; the end of a cycle is no interruption.
    """
    if report.state is RunState.ENDED:
        return _ended(report)
    if report.state in (RunState.PENDING, RunState.QUEUED, RunState.SUBMITTED):
        if report.attempt > (report.state is RunState.SUBMITTED):  # it has run before
            return "paused"
        return "burst_staged" if report.staged else "enqueued"
    if report.state is RunState.PREEMPTING:
        return "running" if report.mode is Mode.CYCLE else "interrupting"
    return _STATES[report.state]


def _ended(report: Report) -> str:
    if report.outcome is Outcome.COMPLETED:
        return "completed"
    if report.outcome is Outcome.STOPPED:
        return "cancelled"
    return "strong_failed" if report.cause in PLATFORM_FAULTS else "failed"
