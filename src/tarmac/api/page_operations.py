"""The operations for pages: the caller, tables of runs, and changes as they happen.

Bound by `server.routes`, called by the page of a server, and by `tarmac ui`.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from tarmac.api.operation import Operation, Query, RunScope, Whole
from tarmac.model.actor import Action
from tarmac.model.people.announcement import Announcement
from tarmac.model.summary import RunWindow


class RunWindowQuery(Query, RunWindow, frozen=True, kw_only=True, omit_defaults=True):
    """A window of the table of all runs. `field`: only these fields of each line (none: all).

    `scope=mine` selects the caller's own runs.
    """

    field: tuple[str, ...] = ()
    scope: RunScope = RunScope.ALL
    offset: Whole = 0
    limit: Annotated[int, Meta(ge=0, le=10_000)] = 100


class RunTable(Struct, frozen=True, kw_only=True):
    """The lines of a window, each as the values of `fields`; `total` runs pass the filters."""

    total: int
    fields: Sequence[str]
    rows: Sequence[Sequence[Any]]


class ChangesQuery(Query, frozen=True, kw_only=True):
    """Changes after the one with the number `after` (null: from now on), with these fields (none: all)."""

    after: Whole | None = None
    field: tuple[str, ...] = ()


class RunChanges(Struct, frozen=True, kw_only=True):
    """Runs that have changed until the change number `until`, as in a table.

    With `more`, others have changed as well: a reader reads its table again.
    """

    until: int
    fields: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: bool


class PageFacts(Struct, frozen=True, kw_only=True):
    """The caller of a page (`user` null: none yet), what it may do, and the server.

    `controls_others`: it may change runs of some other users. `single_sign_on`: logins go through a provider.
    """

    user: str | None
    actions: Sequence[Action]
    controls_others: bool
    version: str
    now: float
    single_sign_on: bool
    announcement: Announcement | None


class PageAddress(Struct, frozen=True, kw_only=True):
    """The address of the page. Until `expires_at` it admits one browser, once (null: users log in)."""

    url: str
    expires_at: float | None


RUN_TABLE = Operation("GET", "/tables/runs", Action.READ, RunTable, query=RunWindowQuery)
RUN_COUNTS = Operation("GET", "/tables/runs/counts", Action.READ, dict[str, dict[str, int]])
RUN_CHANGES = Operation("GET", "/tables/runs/changes", Action.READ, RunChanges, query=ChangesQuery)
PAGE = Operation("GET", "/page", Action.OPEN, PageFacts)
OPEN_PAGE = Operation("POST", "/page/address", Action.READ, PageAddress)
