"""Tables of runs: filtered, in any order, a window at a time. Made by `SqlStore`, on its database.

The ids of a window are found first, from the short columns alone, and then the lines of these runs: so a
window deep in a long table costs little more than its first.
"""

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from tarmac.model.actor import Sight
from tarmac.model.lifecycle import TERMINAL_STATES
from tarmac.model.summary import FACETS, RunSummary, RunWindow
from tarmac.store.checks import storable
from tarmac.store.database import Database
from tarmac.store.rows import to_summary
from tarmac.store.schema import run, run_label
from tarmac.store.statements import LAST_CHARACTER, SUMMARIES, seen, words

_STATUS = sa.func.coalesce(run.c.outcome, run.c.state)
_OPTIONAL = frozenset(column.name for column in run.c if column.nullable)
_COUNT = sa.select(sa.func.count()).select_from(run)
_LINES = SUMMARIES.where(run.c.id.in_(sa.bindparam("ids", expanding=True)))


class SqlRunViews:
    """Implements `model.summary.RunViews` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

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

    def counts(self, sight: Sight | None) -> dict[str, dict[str, int]]:
        columns = [_column(name) for name in FACETS]
        query = sa.select(*columns, sa.func.count()).group_by(*columns)
        counts: dict[str, dict[str, int]] = {name: {} for name in FACETS}
        for *values, number in self._database.rows(seen(query, run, sight)):
            for name, value in zip(FACETS, values, strict=True):
                if value is not None:
                    counts[name][value] = counts[name].get(value, 0) + number
        return counts


def _column(name: str) -> sa.ColumnElement[Any]:
    """The column of a field of `RunSummary` or `RunWindow`."""
    if name == "status":
        return _STATUS
    return run.c["user_name" if name == "user" else name]


def _order(sort: str) -> Sequence[sa.ColumnElement[Any]]:
    """The order by a field, then by id in the same direction, so that one index can give both.

    Runs without a value come last.
    """
    name, falling = sort.removeprefix("-"), sort.startswith("-")
    keys = [run.c.id] if name == "id" else [_column(name), run.c.id]
    order = [key.desc() if falling else key.asc() for key in keys]
    return [keys[0].is_(None), *order] if name in _OPTIONAL else order


def _conditions(window: RunWindow) -> list[sa.ColumnElement[bool]] | None:
    """The conditions of the filters; None if no run can pass, as no database stores such a text."""
    filters = {name: getattr(window, name) for name in FACETS}
    texts = [
        *window.label,
        window.text or "",
        window.array or "",
        *(each for few in filters.values() for each in few),
    ]
    if not all(map(storable, texts)):
        return None
    found: list[sa.ColumnElement[bool]] = []
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
