"""The columns of the ISC's Experiments page and of its command. Called by the dialect and the display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.dialects.dialect import ListColumn
from tarmac.model.lifecycle import Mode
from tarmac.systems.isc.statuses import status
from tarmac.systems.listing import report_of, utc_time

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.model.summary import RunSummary


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
