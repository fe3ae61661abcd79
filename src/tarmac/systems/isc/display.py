"""Runs as the ISC's own command shows experiments. Found by `registry` under the name isc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.cli.views.table import Cell, Column, facts_text, table_text
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.model.lifecycle import Mode
from tarmac.systems.display import Display, report_of, status_cell, utc_time
from tarmac.systems.isc import statuses

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.model.summary import RunSummary

_COLOURS = {
    "enqueued": "queued",
    "burst_staged": "queued",
    "interrupting": "preempting",
    "cancelling": "stopping",
    "cancelled": "stopped",
    "strong_failed": "failed",
}
"""The state of tarmac whose colour a word has, for words that are not its states."""


def _status(run: api.Run | RunSummary) -> Cell:
    return status_cell(statuses.status(report_of(run)), _COLOURS)


def _cycle(run: api.Run | RunSummary) -> str:
    """The number of starts and, for cycle runs, their maximum: `1 / 3`."""
    return f"{run.attempt} / {run.max_turns}" if run.mode == Mode.CYCLE else str(run.attempt)


COLUMNS: Sequence[Column[RunSummary]] = (
    Column("ID", lambda run, _: run.id),
    Column("Name", lambda run, _: Cell(run.name, "bold"), flexible=True),
    Column("Created", lambda run, _: utc_time(run.created_at)),
    Column("GPUs", lambda run, _: run.slots, right=True),
    Column("Mode", lambda run, _: run.mode),
    Column("Cycle", lambda run, _: _cycle(run)),
    Column("Status", lambda run, _: _status(run)),
)


class IscDisplay(Display):
    """`isc experiments`, for several experiments or one."""

    status = staticmethod(statuses.status)

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:
        return table_text(COLUMNS, runs, terminal)

    def run(self, run: api.Run, attempts: Sequence[api.Attempt], terminal: Terminal) -> str:
        newest = attempts[-1] if attempts else None
        status = _status(run)
        fields = {
            "ID": run.id,
            "Name": one_line(run.name),
            "Project": run.project,
            "Created": utc_time(run.created_at),
            "GPUs": str(run.slots),
            "Mode": str(run.mode),
            "Cycle": _cycle(run),
            "Nodes": str(len(newest.nodes)) if newest else "",
            "Status": terminal.paint(status.text, status.style),
            "Message": one_line(run.cause.message if run.cause is not None else ""),
        }
        return facts_text(fields, terminal, width=9)


DISPLAY = IscDisplay()
