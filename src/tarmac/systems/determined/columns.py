"""The columns of Determined's list of experiments. Called by the dialect and the display."""

from collections.abc import Sequence

from tarmac.dialects.dialect import ListColumn
from tarmac.model.progress import Outcome
from tarmac.systems.determined.identity import experiment_id
from tarmac.systems.determined.statuses import status
from tarmac.systems.listing import report_of, utc_time


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
