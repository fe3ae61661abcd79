"""The port of a display: runs as another system's own commands print them. One adapter for each system.

`tarmac ls`, `show` and `logs` request one with `--as NAME`. Runs, attempts and events are the JSON objects of
docs/using/api.md; a display decides nothing, it only translates them into that system's words and columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Protocol

from tarmac import api
from tarmac.cli.views.messages import state_cell
from tarmac.cli.views.table import Cell, Column, Table
from tarmac.cli.views.terminal import Terminal
from tarmac.client import Client
from tarmac.dialects.dialect import ListColumn, Report
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import RUN_OUTCOMES, CauseCode
from tarmac.model.summary import RunSummary


class Display(Protocol):
    """The output of `--as NAME`. Texts have no trailing line end."""

    def status(self, report: Report) -> str:
        """The system's own word for the status of a run, from its dialect."""

    def prepared(self, client: Client, run_ids: Sequence[str]) -> Display:  # noqa: ARG002 some need them
        """The display with further data about these runs."""
        return self

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:
        """A list of runs (`RunSummary`, newest first), as the system's list command prints it."""

    def run(self, run: api.Run, attempts: Sequence[api.Attempt], terminal: Terminal) -> str:
        """One `Run` with its attempts, oldest first, as the system's describe command prints it."""

    def log_prefix(self, run: api.Run, chunk: api.LogChunk) -> str | None:  # noqa: ARG002 some have one
        """The prefix of each line of a `LogChunk` of the run; None: tarmac's own prefix, if any."""
        return None


def status_cell(word: str, colours: Mapping[str, str]) -> Cell:
    """A word in the colour of the state that `colours` maps it to, or of its own name."""
    return Cell(word, state_cell(colours.get(word, word)).style)


def terminal_columns(listed: Sequence[ListColumn], colours: Mapping[str, str]) -> Table[RunSummary]:
    """A system's columns for a terminal: names are bold, and statuses have the colours of states."""

    def column(each: ListColumn) -> Column[RunSummary]:
        def cell(run: RunSummary, _now: float) -> Cell:
            text = each.text(run, None)
            if each.sort == "status":
                return status_cell(text, colours)
            return Cell(text, "bold" if each.sort == "name" else None)

        return Column(each.title, cell, right=each.right, flexible=each.sort == "name")

    return [column(each) for each in listed]


def facts_of(run: api.Run) -> Mapping[str, Any]:
    """The fields of the run's own system beyond the spec."""
    facts: Mapping[str, Any] = run.spec.get("conventions", {}).get("facts", {})
    return facts


def every_report() -> Iterator[Report]:
    """Every report of a run for which a system may have a word of its own."""
    causes = (None, *CauseCode)
    for mode, attempt, state, staged in product(Mode, (0, 1), RunState, (False, True)):
        live = Report(state=state, mode=mode, attempt=attempt, staged=staged)
        if state is not RunState.ENDED:
            yield live
            continue
        for outcome, cause in product(sorted(RUN_OUTCOMES), causes):
            yield replace(live, outcome=outcome, cause=cause)
