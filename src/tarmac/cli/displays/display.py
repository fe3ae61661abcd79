"""The port of a display: runs as another system's own commands would print them. One adapter per system here.

`tarmac ls`, `show` and `logs` ask for one with `--as NAME`. Runs, attempts and events are the JSON objects of
docs/api.md; a display decides nothing, it only puts them into that system's words and columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tarmac.cli.terminal import Terminal
from tarmac.cli.wording import Json
from tarmac.model.lifecycle import RunState
from tarmac.model.run import CauseCode, Outcome
from tarmac.model.spec import Mode
from tarmac.spec.dialect import Report


class Display(Protocol):
    """What `--as NAME` shows. `now` is in seconds since the epoch; texts come without a last line end."""

    def status(self, report: Report) -> str:
        """The system's own word for how a run stands, as its dialect says it."""
        ...

    def runs(self, runs: Sequence[Json], *, now: float, terminal: Terminal) -> str:
        """A list of runs (`RunSummary`, newest first), as the system's list command prints it."""
        ...

    def run(
        self,
        run: Json,
        attempts: Sequence[Json],
        events: Sequence[Json],
        *,
        now: float,
        terminal: Terminal,
    ) -> str:
        """One `Run` with attempts and events, oldest first, as the system's describe command prints it."""
        ...

    def log_prefix(self, run: Json, chunk: Json) -> str | None:
        """What stands before each line of a `LogChunk` of the run; None: tarmac's own prefix, if any."""
        ...


def report_of(run: Json) -> Report:
    """What a dialect needs to know to put the status of a `Run` or a `RunSummary` into its words."""
    cause = run.get("cause_code") or (run.get("cause") or {}).get("code")
    return Report(
        state=RunState(run["state"]),
        outcome=Outcome(run["outcome"]) if run["outcome"] else None,
        cause=CauseCode(cause) if cause else None,
        mode=Mode(run["mode"]),
        attempt=run["attempt"],
        preempted=run["preemptions"] > 0,
    )
