"""Runs as the ISC's own command shows experiments. Found by `registry` under the name isc."""

from collections.abc import Sequence

from tarmac import api
from tarmac.cli.views.table import facts_text, table_text
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.model.summary import RunSummary
from tarmac.systems.display import Display, status_cell, terminal_columns
from tarmac.systems.isc import statuses
from tarmac.systems.listing import report_of, utc_time

_COLOURS = {
    "enqueued": "queued",
    "burst_staged": "queued",
    "interrupting": "preempting",
    "cancelling": "stopping",
    "cancelled": "stopped",
    "strong_failed": "failed",
}
"""The state of tarmac whose colour a word has, for words that are not its states."""


COLUMNS = terminal_columns(statuses.COLUMNS, _COLOURS)


class IscDisplay(Display):
    """`isc experiments`, for several experiments or one."""

    status = staticmethod(statuses.status)

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:
        return table_text(COLUMNS, runs, terminal)

    def run(self, run: api.Run, attempts: Sequence[api.Attempt], terminal: Terminal) -> str:
        newest = attempts[-1] if attempts else None
        status = status_cell(self.status(report_of(run)), _COLOURS)
        fields = {
            "ID": run.id,
            "Name": one_line(run.name),
            "Project": run.project,
            "Created": utc_time(run.created_at),
            "GPUs": str(run.slots),
            "Mode": str(run.mode),
            "Cycle": statuses.cycle(run),
            "Nodes": str(len(newest.nodes)) if newest else "",
            "Status": terminal.paint(status.text, status.style),
            "Message": one_line(run.cause.message if run.cause is not None else ""),
        }
        return facts_text(fields, terminal, width=9)


DISPLAY = IscDisplay()
