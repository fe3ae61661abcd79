"""Runs as the API answers. Made in `server.records`.

The facts that stored records share with these answers are declared once, in `model.progress`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tarmac.api.server import ErrorForm
from tarmac.model import progress
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Cause, RunProgress
from tarmac.model.summary import RunSummary


class CycleReport(progress.CycleReport, frozen=True, kw_only=True):
    """The results of the turns of a cycle run; `proven` follows from the others."""

    proven: bool


class Run(RunProgress, frozen=True, kw_only=True):
    """A run and its spec. `priority`, `weight` and `pool` are the present ones.

    `max_turns` is null except for a cycle run; `retry_at` is the end of the pause before the next try of a
    failed run. `exit_status` is set once it has ended. `spec` has no `source`; only the answer to a
    submission has `warnings`, those about its run file. `array_id` is that of its array, or null. Only the
    answer about one run says whether it is `staged`: its machines are rented once that is approved.
    """

    name: str
    project: str
    dialect: str
    mode: Mode
    priority: int
    weight: float
    pool: str | None
    slots: int
    max_turns: int | None
    retry_at: float | None
    cycle_report: CycleReport | None
    exit_status: int | None
    spec: dict[str, Any]
    source: str
    warnings: tuple[str, ...]
    labels: Mapping[str, str]
    staged: bool = False


class RunStatus(RunSummary, frozen=True, kw_only=True):
    """The summary of a run with its cause, as the log stream sends it."""

    cause: Cause | None


class RunPage(Struct, frozen=True, kw_only=True):
    """A page of the list, newest first; `next` is the `before` of the following page.

    `total`, if it was asked for, is the number of all runs that match the query, `limit` aside.
    """

    runs: list[RunSummary]
    next: str | None
    total: int | None = None


class Array(Struct, frozen=True, kw_only=True):
    """An array: the number of its members by state, or by outcome once ended; `indices` as written.

    `at_most` of its members run at once (null: all).
    """

    id: str
    name: str
    project: str
    user: str
    indices: str
    at_most: int | None
    total: int
    counts: Mapping[str, int]
    created_at: float


class RunResult(Struct, frozen=True, kw_only=True):
    """The result of a command for one of many runs: the run, or the error that the command met."""

    run: Run | None = None
    error: ErrorForm | None = None
