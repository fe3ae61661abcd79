"""The columns of `mcli get runs`, as in its documentation. Called by the dialect and the display."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from tarmac.dialects.dialect import ListColumn
from tarmac.systems.listing import report_of
from tarmac.systems.mcli.statuses import status

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
