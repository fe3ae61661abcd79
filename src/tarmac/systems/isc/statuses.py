"""The ISC's words for the state of an experiment, and the columns of its Experiments page and its command.

Used by the dialect and by the display of that name.
"""

from collections.abc import Sequence

from tarmac import api
from tarmac.dialects.dialect import ListColumn, Report
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import PLATFORM_FAULTS, Outcome
from tarmac.model.summary import RunSummary
from tarmac.systems.listing import report_of, utc_time

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


def cycle(run: api.Run | RunSummary) -> str:
    """The number of starts and, for cycle runs, their maximum: `1 / 3`."""
    return f"{run.attempt} / {run.max_turns}" if run.mode == Mode.CYCLE else str(run.attempt)


COLUMNS: Sequence[ListColumn] = (
    ListColumn("ID", lambda run, _: run.id, sort="id"),
    ListColumn("Name", lambda run, _: run.name, sort="name"),
    ListColumn("Created", lambda run, _: utc_time(run.created_at), sort="created_at"),
    ListColumn("GPUs", lambda run, _: str(run.slots), sort="slots", right=True),
    ListColumn("Mode", lambda run, _: run.mode, sort="mode"),
    ListColumn("Cycle", lambda run, _: cycle(run), sort="attempt"),
    ListColumn("Status", lambda run, _: status(report_of(run)), sort="status"),
)
