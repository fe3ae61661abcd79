"""The operations for pages: the caller, tables of runs, saved views, and changes as they happen.

Bound by `server.routes`, called by the page of a server, and by `tarmac ui`.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tarmac.api.operation import Body, Operation, Query, RunScope, Whole
from tarmac.model.actor import Action
from tarmac.model.people.announcement import Announcement
from tarmac.model.summary import RunFilter, RunWindow, SavedView


class RunWindowQuery(Query, RunWindow, frozen=True, kw_only=True, omit_defaults=True):
    """A window of the table of all runs. `field`: only these fields of each line (none: all).

    `scope=mine` selects the caller's own runs. `as` names a system: each line then has the texts of its own
    columns as well, and a `status` is one of its words.
    """

    field: tuple[str, ...] = ()
    scope: RunScope = RunScope.ALL
    shown_as: str | None = msgspec.field(default=None, name="as")
    offset: Whole = 0
    limit: Annotated[int, Meta(ge=0, le=10_000)] = 100


class RunCountsQuery(Query, RunFilter, frozen=True, kw_only=True, omit_defaults=True):
    """The field to count, with the filters of a table; those by that field do not count.

    `scope=mine` counts the caller's own runs. `as` names a system, whose words statuses are.
    """

    field: str
    scope: RunScope = RunScope.ALL
    shown_as: str | None = msgspec.field(default=None, name="as")


class RunColumn(Struct, frozen=True, kw_only=True):
    """A column of another system's list of runs. `sort` is the field that it shows, if there is one.

    `right`: its texts are aligned to the right.
    """

    title: str
    sort: str | None
    right: bool


class RunTable(Struct, frozen=True, kw_only=True):
    """The lines of a window, each as the values of `fields`; `total` runs pass the filters.

    The texts of `columns` follow the values, if the query names a system.
    """

    total: int
    fields: Sequence[str]
    columns: Sequence[RunColumn]
    rows: Sequence[Sequence[Any]]


class ViewBody(Body, SavedView, frozen=True, kw_only=True):
    """A view to save under its name: the query of the page's address, without the question mark."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    query: Annotated[str, Meta(max_length=4_000)]


class ViewQuery(Query, frozen=True, kw_only=True):
    """The name of a saved view."""

    name: str


class ChangesQuery(Query, frozen=True, kw_only=True):
    """Changes after the one with the number `after` (null: from now on), with these fields (none: all)."""

    after: Whole | None = None
    field: tuple[str, ...] = ()


class RunChanges(Struct, frozen=True, kw_only=True):
    """Runs that have changed until the change number `until`, as in a table.

    With `more`, others have changed as well: a reader reads its table again. `paths` begin those of other
    answers that have changed: `/nodes`, `/limits`.
    """

    until: int
    fields: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: bool
    paths: Sequence[str] = ()


class PageFacts(Struct, frozen=True, kw_only=True):
    """The caller of a page (`user` null: none yet), what it may do, and the server.

    `controls_others`: it may change runs of some other users. `single_sign_on`: logins go through a provider.
    `systems`: the names of those whose columns tables have.
    """

    user: str | None
    actions: Sequence[Action]
    controls_others: bool
    version: str
    now: float
    single_sign_on: bool
    systems: Sequence[str]
    announcement: Announcement | None


class PageAddress(Struct, frozen=True, kw_only=True):
    """The address of the page. Until `expires_at` it admits one browser, once (null: users log in)."""

    url: str
    expires_at: float | None


RUN_TABLE = Operation("GET", "/tables/runs", Action.READ, RunTable, query=RunWindowQuery)
RUN_COUNTS = Operation("GET", "/tables/runs/counts", Action.READ, dict[str, int], query=RunCountsQuery)
VIEWS = Operation("GET", "/views", Action.ACCOUNT, list[SavedView])
SAVE_VIEW = Operation("PUT", "/views", Action.ACCOUNT, list[SavedView], body=ViewBody)
DELETE_VIEW = Operation("DELETE", "/views", Action.ACCOUNT, list[SavedView], query=ViewQuery)
RUN_CHANGES = Operation("GET", "/tables/runs/changes", Action.READ, RunChanges, query=ChangesQuery)
PAGE = Operation("GET", "/page", Action.OPEN, PageFacts)
OPEN_PAGE = Operation("POST", "/page/address", Action.READ, PageAddress)
