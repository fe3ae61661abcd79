"""The columns of MLflow's runs, which Mantik's users see. Called by the dialect and the display.

Mantik's documentation has no listing; the fields are those that MLflow stores for a run.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from tarmac.dialects.dialect import ListColumn
from tarmac.systems.listing import report_of
from tarmac.systems.mantik.statuses import status


def columns(zone: tzinfo | None) -> Sequence[ListColumn]:
    """The columns with times of this zone (None: the local one)."""
    return (
        ListColumn("run_id", lambda run, _: run.id, sort="id"),
        ListColumn("run_name", lambda run, _: run.name, sort="name"),
        ListColumn("status", lambda run, _: status(report_of(run)), sort="status"),
        ListColumn("start_time", lambda run, _: when(run.started_at, zone), sort="started_at"),
        ListColumn("end_time", lambda run, _: when(run.ended_at, zone), sort="ended_at"),
    )


def when(at: float | None, zone: tzinfo | None = None) -> str:
    """A time to the second."""
    return "" if at is None else datetime.fromtimestamp(at).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
