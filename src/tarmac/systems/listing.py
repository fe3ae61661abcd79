"""The parts of several systems' lists of runs. Used by their columns and displays."""

from datetime import UTC, datetime

from tarmac import api
from tarmac.dialects.dialect import Report
from tarmac.model.summary import RunSummary


def utc_time(at: float) -> str:
    """A time in UTC to the second, in the format of several systems."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def report_of(run: api.Run | RunSummary) -> Report:
    """The report of a `Run` or `RunSummary`, from which a dialect derives its status."""
    cause = (
        run.cause_code if isinstance(run, RunSummary) else run.cause.code if run.cause is not None else None
    )
    return Report(
        state=run.state,
        outcome=run.outcome,
        cause=cause,
        mode=run.mode,
        attempt=run.attempt,
        staged=run.staged,
    )
