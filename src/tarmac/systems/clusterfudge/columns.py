"""The columns of Clusterfudge's page of launches. Called by the dialect and the display."""

from collections.abc import Sequence

from tarmac.dialects.dialect import ListColumn
from tarmac.systems.clusterfudge.identity import launch_number
from tarmac.systems.clusterfudge.statuses import status
from tarmac.systems.listing import report_of, utc_time

COLUMNS: Sequence[ListColumn] = (
    ListColumn("LAUNCH", lambda run, _: str(launch_number(run.id)), right=True),
    ListColumn("NAME", lambda run, _: run.name, sort="name"),
    ListColumn("STATUS", lambda run, _: status(report_of(run)), sort="status"),
    ListColumn("LAUNCHED BY", lambda run, _: run.user, sort="user"),
    ListColumn("SUBMITTED", lambda run, _: utc_time(run.created_at), sort="created_at"),
    ListColumn("RUN", lambda run, _: run.id, sort="id"),
)
