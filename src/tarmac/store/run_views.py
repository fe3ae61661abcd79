"""Tables of runs: filtered, in any order, a window at a time; and saved views. Made by `SqlStore`.

The ids of a window are found first, from the short columns alone, and then the lines of these runs: so a
window deep in a long table costs little more than its first.
"""

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from tarmac.model.actor import Sight
from tarmac.model.codec import replace
from tarmac.model.lifecycle import TERMINAL_STATES
from tarmac.model.summary import FACETS, Project, RunFilter, RunSummary, RunWindow, SavedView
from tarmac.store.account_schema import saved_view
from tarmac.store.checks import check_texts, storable
from tarmac.store.database import Database
from tarmac.store.rows import to_summary
from tarmac.store.schema import run, run_label
from tarmac.store.statements import LAST_CHARACTER, STAGED, SUMMARIES, put, seen, words

_STATUS = sa.func.coalesce(run.c.outcome, run.c.state)
_ATTEMPTS = sa.cast(sa.case((run.c.attempt > 1, 2), else_=run.c.attempt), sa.Text)
_KIND = sa.func.coalesce(run.c.outcome, "") + " " + sa.func.coalesce(run.c.cause_code, "") + " " + run.c.mode
_COLUMNS = {
    "status": _STATUS,
    "user": run.c.user_name,
    "staged": STAGED,
    "kind": run.c.state + " " + _KIND + " " + _ATTEMPTS + sa.case((STAGED, " 1"), else_=" 0"),
}
_OPTIONAL = frozenset(column.name for column in run.c if column.nullable)
_COUNT = sa.select(sa.func.count()).select_from(run)
_NEWEST_AT = sa.func.max(run.c.created_at)
_LIVE = sa.func.sum(sa.case((run.c.state.in_(words(TERMINAL_STATES)), 0), else_=1))
_PROJECTS = sa.select(run.c.project, sa.func.count(), _LIVE, _NEWEST_AT).group_by(run.c.project)
_SAVED = (
    sa.select(saved_view.c.name, saved_view.c.query)
    .where(saved_view.c.user_name == sa.bindparam("of_user"))
    .order_by(saved_view.c.name)
)
_FORGET = sa.delete(saved_view).where(
    saved_view.c.user_name == sa.bindparam("of_user"), saved_view.c.name == sa.bindparam("of_name")
)
_LINES = SUMMARIES.where(run.c.id.in_(sa.bindparam("ids", expanding=True)))


class SqlRunViews:
    """Implements `model.summary.RunViews` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._save = put(saved_view, database.dialect)

    def window(self, window: RunWindow, sight: Sight | None) -> tuple[int, list[RunSummary]]:
        conditions = _conditions(window)
        if conditions is None:
            return 0, []
        chosen = seen(sa.select(run.c.id), run, sight).where(*conditions)
        order = _order(window.sort)
        ids = chosen.order_by(*order).limit(window.limit).offset(window.offset)
        page = SUMMARIES.where(run.c.id.in_(sa.select(ids.subquery("ids").c.id))).order_by(*order)
        with self._database.reading() as connection:
            total = connection.execute(seen(_COUNT, run, sight).where(*conditions))
            found = connection.execute(page).all() if window.limit else []
            return total.scalar_one(), list(map(to_summary, found))

    def lines(self, run_ids: Collection[str], sight: Sight | None) -> list[RunSummary]:
        found = map(to_summary, self._database.rows_of(_LINES, run_ids))
        return [line for line in found if sight is None or sight.covers(line.user, line.project)]

    def counts(self, field: str, chosen: RunFilter, sight: Sight | None) -> dict[str, int]:
        others: Any = {field: ()}
        conditions = _conditions(replace(chosen, **others))
        if conditions is None:
            return {}
        column = _column(field)
        if conditions or sight is not None:
            column = column + ""  # in the order of an index, SQLite would look each row up
        query = seen(sa.select(column, sa.func.count()).group_by(column), run, sight).where(*conditions)
        return {value: number for value, number in self._database.rows(query) if value is not None}

    def projects(self, sight: Sight | None) -> list[Project]:
        found = self._database.rows(seen(_PROJECTS, run, sight).order_by(_NEWEST_AT.desc()))
        return [Project(id=row[0], runs=row[1], live=row[2], newest_at=row[3]) for row in found]

    def saved(self, user: str) -> list[SavedView]:
        found = self._database.rows(_SAVED, {"of_user": user})
        return [SavedView(name=name, query=query) for name, query in found]

    def save(self, user: str, view: SavedView) -> None:
        check_texts({"the user": user, "the name": view.name, "the query": view.query})
        self._database.write(self._save, {"user_name": user, "name": view.name, "query": view.query})

    def forget(self, user: str, name: str) -> None:
        if storable(name):
            self._database.write(_FORGET, {"of_user": user, "of_name": name})


def _column(name: str) -> sa.ColumnElement[Any]:
    """The column of a field of `RunSummary` or `RunFilter`."""
    return _COLUMNS[name] if name in _COLUMNS else run.c[name]


def _order(sort: str) -> Sequence[sa.ColumnElement[Any]]:
    """The order by a field, then by id in the same direction, so that one index can give both.

    Runs without a value come last.
    """
    name, falling = sort.removeprefix("-"), sort.startswith("-")
    keys = [run.c.id] if name == "id" else [_column(name), run.c.id]
    order = [key.desc() if falling else key.asc() for key in keys]
    return [keys[0].is_(None), *order] if name in _OPTIONAL else order


def _conditions(window: RunFilter) -> list[sa.ColumnElement[bool]] | None:
    """The conditions of the filters; None if no run can pass, as no database stores such a text."""
    filters = {name: getattr(window, name) for name in (*FACETS, "kind")}
    texts = [
        *window.id,
        *window.label,
        window.text or "",
        window.array or "",
        *(each for few in filters.values() for each in few),
    ]
    if not all(map(storable, texts)):
        return None
    found: list[sa.ColumnElement[bool]] = [run.c.id.in_(sorted(window.id))] if window.id else []
    for name, values in filters.items():
        if name == "status" and values:
            found.append(_of_status(values))
        elif values:
            found.append(_column(name).in_(sorted(values)))
    for pair in window.label:
        key, _, value = pair.partition("=")
        has = sa.select(run_label.c.run_id).where(run_label.c.key == key, run_label.c.value == value)
        found.append(run.c.id.in_(has))
    if window.array is not None:
        found.append(run.c.array_id == window.array)
    if window.text:
        starts = (run.c.id >= window.text) & (run.c.id < window.text + LAST_CHARACTER)
        found.append(starts | run.c.name.icontains(window.text, autoescape=True))
    return found


def _of_status(values: Collection[str]) -> sa.ColumnElement[bool]:
    """The runs in these states, or ended with these outcomes: by the index of states where it suffices."""
    ended = set(words(TERMINAL_STATES))
    live = sorted(set(values) - ended)
    return run.c.state.in_(live) | (run.c.state.in_(sorted(ended)) & run.c.outcome.in_(sorted(values)))
