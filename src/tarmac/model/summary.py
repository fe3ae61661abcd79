"""Lists of runs: the query, and the line of each run.

Used by the port `Store`; the command line and the server show the lines.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Meta, Struct, field

from tarmac.model.actor import Sight
from tarmac.model.codec import common
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import CauseCode, Outcome

if TYPE_CHECKING:
    from tarmac.model.run import Run
    from tarmac.model.spec import RunSpec


MOST_IDS = 200


class ListQuery(Struct, frozen=True, kw_only=True):
    """A page of a list: newest first, at most `limit`, those before `before_id` when paging.

    `sight`: only those that it covers (None: all).
    """

    user: str | None = None
    sight: Sight | None = None
    project: str | None = None
    before_id: str | None = None
    limit: int = 100


class RunQuery(ListQuery, frozen=True, kw_only=True):
    """The runs to list: newest first, at most `limit`, those before `before_id` when paging.

    Empty `states` means all; `user`, `project`, `name`, `array_id` and `array_index` None mean any; every
    pair of `labels` must match. Members of the arrays `without` are left out. With `ended_after`, runs that
    ended before it are left out (those that have not ended stay); with `ended_before`, all others are.
    """

    states: frozenset[RunState] = frozenset()
    name: str | None = None
    array_id: str | None = None
    array_index: int | None = None
    without: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    ended_after: float | None = None
    ended_before: float | None = None


class RunFilter(Struct, frozen=True, kw_only=True):
    """Filters of a table of runs: a run passes if it passes every one.

    A filter with several values passes a run with any of them. A `status` is a state, or the outcome of an
    ended run; a `label` is KEY=VALUE; `text` is part of a name or the beginning of an id. A `kind` is the
    state, the outcome, the code of the cause, the mode, the number of attempts (at most 2) and 1 if it is
    staged (otherwise 0) of a run, with blanks between them.
    """

    id: Annotated[tuple[str, ...], Meta(max_length=MOST_IDS)] = ()
    status: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    array: str | None = None
    text: str | None = None


class RunWindow(RunFilter, frozen=True, kw_only=True):
    """A part of a table: the runs that pass the filters, from number `offset` on, in the order `sort`.

    `sort` is a field of `RunSummary` or `status`, after a `-` in descending order; equal ones are in the
    order of their ids.
    """

    sort: str = "-id"
    offset: int = 0
    limit: int = 100


class SavedView(Struct, frozen=True, kw_only=True):
    """A view of the table of runs that a user has saved: `query` is the query of the page's address."""

    name: str
    query: str


class Project(Struct, frozen=True, kw_only=True):
    """The number of a project's runs, of those that have not ended, and the time of the newest."""

    id: str
    runs: int
    live: int
    newest_at: float


FACETS = ("status", "user", "project", "mode", "cluster", "pool", "system")
"""The fields of `RunFilter` with few different values."""


class RunSummary(Struct, frozen=True):
    """One line of a list: read without decoding the spec, so that lists of 10,000 stay quick.

    Its fields are in the order of the columns that `store` reads. `priority` is the present
    one; `cluster` and `pool` are where it runs or last ran, before that its target (None: any). `system` is
    the one whose conventions apply in the run, `slot_type` and `image` are requested ones; `max_turns` is
    None except for a cycle run. In a list a run is `staged` while its machines wait for an approval.
    """

    id: str
    name: str
    project: str
    user: str
    dialect: str
    state: RunState
    outcome: Outcome | None
    mode: Mode
    priority: int
    slots: int
    attempt: int
    cluster: str | None
    pool: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    message: str | None
    cause_code: CauseCode | None
    preemptions: int
    turns: int
    max_turns: int | None
    system: str
    slot_type: str | None
    image: str | None
    array_id: str | None = None
    array_index: int | None = None
    staged: bool = False


class RunViews(Protocol):
    """Reads tables of runs, of those that `sight` covers (None: all), and keeps the saved views of users."""

    def window(self, window: RunWindow, sight: Sight | None) -> tuple[int, list[RunSummary]]:
        """The number of runs that pass the filters, and those in the window."""

    def lines(self, run_ids: Collection[str], sight: Sight | None) -> list[RunSummary]:
        """The lines of these runs, in any order; ids of no run are left out."""

    def counts(self, field: str, chosen: RunFilter, sight: Sight | None) -> dict[str, int]:
        """The number of runs with each value of a field that pass the filters by other fields.

        The field is one of `FACETS`, or `kind`.
        """

    def projects(self, sight: Sight | None) -> list[Project]:
        """The projects of all runs, that of the newest run first."""

    def saved(self, user: str) -> list[SavedView]:
        """The views that a user has saved, by name."""

    def save(self, user: str, view: SavedView) -> None:
        """Save a view in place of the one with its name. Raises InvalidInput for a text with a NUL."""

    def forget(self, user: str, name: str) -> None:
        """Remove a saved view, if there is one of this name."""


def summary_of(run: "Run", cluster: str | None, pool: str | None = None) -> RunSummary:
    """The line of a run in a list; `cluster` and `pool` are those of its newest attempt."""
    spec = run.spec
    return RunSummary(
        **common(RunSummary, run),
        dialect=spec.dialect,
        mode=spec.mode,
        priority=run.place.priority,
        slots=spec.slots,
        cluster=cluster,
        pool=pool,
        message=run.cause.message if run.cause is not None else None,
        cause_code=run.cause.code if run.cause is not None else None,
        max_turns=max_turns_of(spec),
        system=spec.conventions.system,
        slot_type=slot_type_of(spec),
        image=spec.environment.image,
    )


def max_turns_of(spec: "RunSpec") -> int | None:
    """The number of turns of a cycle run; None for other runs."""
    return spec.max_rapid_cycles if spec.mode is Mode.CYCLE else None


def slot_type_of(spec: "RunSpec") -> str | None:
    """The requested slot types, joined by commas; None is any."""
    slot_types = {role.slot_type or role.replica_resources.slot_type for role in spec.roles}
    return ",".join(sorted(name for name in slot_types if name)) or None
