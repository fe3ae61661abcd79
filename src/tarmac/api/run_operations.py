"""Runs as the API answers, and the operations on them: the list, one run, and commands to it.

Bound by `server.routes`, called by `client`. The facts that stored records share with these answers are
declared once, in `model.progress`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tarmac.api.operation import Body, Lines, ListQuery, Operation, Query
from tarmac.api.server import ErrorForm
from tarmac.model import progress
from tarmac.model.actor import Action
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import Cause, RunProgress
from tarmac.model.summary import Project, RunSummary


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


class RunsQuery(ListQuery[RunState], frozen=True, kw_only=True):
    """`array` is the id of an array: only its members. A `label` is KEY=VALUE.

    `all` includes runs that ended long ago; `scope=mine` selects the caller's own runs. Only runs older than
    the one with the id `before`, and no members of the arrays with the ids `without`. With `count`, the
    answer has a `total`.
    """

    name: str | None = None
    array: str | None = None
    label: list[str] = field(default_factory=list)
    before: str | None = None
    without: list[str] = field(default_factory=list)
    limit: Lines = 100
    count: bool = False
    everything: bool = field(default=False, name="all")


class StopQuery(Query, frozen=True, kw_only=True):
    """With `now`, the run ends without its grace period."""

    now: bool = False


class RunCommand(StrEnum):
    """A command that a request may give to many runs."""

    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"


MOST_COMMANDED = 1_000
References = Annotated[list[str], Meta(min_length=1, max_length=MOST_COMMANDED)]


class CommandBody(Body, frozen=True, kw_only=True):
    """A command to runs, each by its reference. With `now`, stopped runs end without their grace period."""

    command: RunCommand
    runs: References
    now: bool = False


class LabelsBody(Body, frozen=True, kw_only=True):
    """Labels to set, by name; null removes one."""

    labels: Annotated[Mapping[str, str | None], Meta(max_length=1_000)]


class LabelRunsBody(LabelsBody, frozen=True, kw_only=True):
    """The same for many runs, each by its reference."""

    runs: References


RUNS = Operation("GET", "/runs", Action.READ, RunPage, query=RunsQuery)
RUN = Operation("GET", "/runs/{run}", Action.READ, Run)
REMOVE_RUN = Operation("DELETE", "/runs/{run}", Action.CONTROL, Run)
PROJECTS = Operation("GET", "/projects", Action.READ, list[Project])
STOP = Operation("POST", "/runs/{run}/stop", Action.CONTROL, Run, query=StopQuery)
PAUSE = Operation("POST", "/runs/{run}/pause", Action.CONTROL, Run)
RESUME = Operation("POST", "/runs/{run}/resume", Action.CONTROL, Run)
COMMAND_RUNS = Operation("POST", "/runs/commands", Action.CONTROL, list[RunResult], body=CommandBody)
ARRAY = Operation("GET", "/runs/{run}/array", Action.READ, Array)
LABEL = Operation("PATCH", "/runs/{run}/labels", Action.CONTROL, Run, body=LabelsBody)
LABEL_RUNS = Operation("PATCH", "/runs/labels", Action.CONTROL, list[RunResult], body=LabelRunsBody)
