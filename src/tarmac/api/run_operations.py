"""The operations on runs: the list, one run, and commands to it.

Bound by `server.routes`, called by `client`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from tarmac.api.operation import Body, Lines, ListQuery, Operation, Query
from tarmac.api.runs import Array, Run, RunPage, RunResult
from tarmac.model.actor import Action
from tarmac.model.lifecycle import RunState
from tarmac.model.summary import Project


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
