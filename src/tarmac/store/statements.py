"""Every statement for the database, built once. Used by `sql` alone.

Writes are executed with a list of rows: the keys of a row are the columns it sets (`rows` makes them), and
the names that begin with `guard_` or `new_` are parameters of the statement itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from tarmac.model.actor import Sight
from tarmac.model.cluster import BURST_PREFIX
from tarmac.model.experiment import ExperimentQuery
from tarmac.model.lifecycle import ATTEMPT_TABLE, LIVE_STATES, TERMINAL_STATES, Mode, RunEvent, sources
from tarmac.model.progress import Event
from tarmac.model.run import Attempt, Run
from tarmac.model.summary import RunQuery, RunSummary
from tarmac.store.prepared import Prepared
from tarmac.store.schema import (
    LIVE_ATTEMPT,
    attempt,
    cluster,
    dataset,
    event,
    metric_position,
    node,
    rental,
    reservation,
    run,
    run_label,
    run_spec,
    server,
    usage,
)

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

Chosen = TypeVar("Chosen", bound=sa.Select[Any])

LAST_CHARACTER = "\U0010ffff"
"""Sorts after every other: all texts with a prefix sort between the prefix and the prefix plus this."""

GUARD_STATES = max(len(sources(kind)) for kind in RunEvent)
"""The number of states in the guard of a step; a shorter list repeats its last one."""


def words(states: Iterable[StrEnum]) -> list[str]:
    """The plain texts of enum values, in a fixed order, so that the statement is compiled once."""
    return sorted(state.value for state in states)


def by_reference(statement: sa.Select[Any], table: sa.Table) -> Sequence[sa.Select[Any]]:
    """The queries for a `reference`, until one has rows: an id, a name of `user`, a name, the beginning of an
    id. The newest rows are first.
    """
    reference: sa.BindParameter[Any] = sa.bindparam("reference")
    newest = statement.order_by(table.c.id.desc()).limit(_LIMIT)
    named = newest.where(table.c.name == reference)
    user = table.c.user_name + ""  # so that SQLite does not look through all rows of the user
    return (
        statement.where(table.c.id == reference),
        named.where(user == sa.bindparam("user")),
        named,
        newest.where(table.c.id >= reference, table.c.id < sa.bindparam("end")),
    )


def page(
    statement: sa.Select[Any],
    newest: sa.ColumnElement[Any],
    query: RunQuery | ExperimentQuery,
    table: sa.Table,
    *others: str,
) -> sa.Select[Any]:
    """The newest rows of a query, by this column of ids; `others` are further fields with equal columns."""
    same = {"user_name": query.user} | {name: getattr(query, name) for name in ("project", *others)}
    equal = (table.c[name] == value for name, value in same.items() if value is not None)
    statement = seen(statement.where(*equal), table, query.sight).order_by(newest.desc()).limit(query.limit)
    if query.states:
        statement = statement.where(table.c.state.in_(words(query.states)))
    if query.before_id is not None:
        statement = statement.where(newest < query.before_id)
    return statement


_LIMIT = sa.bindparam("limit", type_=sa.Integer)

# --- runs -------------------------------------------------------------------------------------------

INSERT_RUNS = Prepared(sa.insert(run))
INSERT_SPECS = Prepared(sa.insert(run_spec))
INSERT_LABELS = Prepared(sa.insert(run_label))

STEP_RUNS = Prepared(
    sa.update(run)
    .where(
        run.c.id == sa.bindparam("guard_id"),
        run.c.seq == sa.bindparam("guard_seq"),
        run.c.share.is_not_distinct_from(sa.bindparam("guard_share")),
        run.c.state.in_([sa.bindparam(f"guard_state_{index}") for index in range(GUARD_STATES)]),
    )
    .values(
        cluster=sa.func.coalesce(sa.bindparam("new_cluster"), run.c.cluster),
        pool=sa.func.coalesce(sa.bindparam("new_pool"), run.c.pool),
    )
)
"""Its number of affected rows is the number of steps that were not stale."""

RUN_FIELDS = Run.__struct_fields__
ATTEMPT_FIELDS = Attempt.__struct_fields__
EVENT_FIELDS = Event.__struct_fields__
"""The fields read of each record: a field is in the column of its name, with two exceptions."""

_UNRENTED = (
    run.c.outcome.is_(None)
    & run.c.cluster.startswith(BURST_PREFIX)
    & ~sa.exists().where(rental.c.run_id == run.c.id)
)
STAGED = sa.case((run.c.mode == Mode.BURST.value, _UNRENTED), else_=sa.false())
"""Whether nothing was ever rented for a run that needs it: `RunSummary.staged`. No other run is looked up."""

_RENAMED = {"user": run.c.user_name, "spec": run_spec.c.body, "staged": STAGED.label("staged")}

_RUNS = sa.select(*(_RENAMED[name] if name in _RENAMED else run.c[name] for name in RUN_FIELDS)).join_from(
    run, run_spec
)

RUNS_BY_ID = _RUNS.where(run.c.id.in_(sa.bindparam("ids", expanding=True)))
REMOVE_RUNS = (
    sa.delete(run)
    .where(run.c.id.in_(sa.bindparam("ids", expanding=True)), run.c.state.in_(words(TERMINAL_STATES)))
    .returning(run.c.id)
)
RUNS_BY_KEY = _RUNS.where(run.c.idempotency_key.in_(sa.bindparam("ids", expanding=True)))
RUNS_BY_REFERENCE = by_reference(_RUNS, run)
ARRAY_COUNTS = (
    sa.select(run.c.state, run.c.outcome, sa.func.count())
    .where(run.c.array_id == sa.bindparam("array_id"))
    .group_by(run.c.state, run.c.outcome)
)
_IS_LIVE = run.c.state.in_(words(LIVE_STATES))
LIVE_IDS = sa.select(run.c.id).where(_IS_LIVE).order_by(run.c.id)
LIVE_RUNS = _RUNS.where(
    _IS_LIVE, run.c.id >= sa.bindparam("first"), run.c.id <= sa.bindparam("last")
).order_by(run.c.id)

SUMMARIES = sa.select(
    *(_RENAMED[name] if name in _RENAMED else run.c[name] for name in RunSummary.__struct_fields__)
)


FEW = 2000
"""The most runs that a list looks up one by one; with more, it reads from its newest run on."""


def relevant(query: RunQuery) -> sa.Select[Any] | None:
    """The number of runs that ended lately, or of live ones for a list by labels, at most `FEW` + 1.

    None for other lists: an index has these in order.
    """
    if query.ended_after is not None:
        condition = run.c.ended_at > query.ended_after
    elif query.labels and query.states and query.states <= LIVE_STATES:
        condition = run.c.state.in_(words(query.states))
    else:
        return None
    found = sa.select(run.c.id).where(condition).limit(FEW + 1)
    return sa.select(sa.func.count()).select_from(found.subquery("found"))


def summaries(query: RunQuery, *, few: bool = False) -> sa.Select[Any]:
    """The page of the list for `query`.

    `few`: at most `FEW` runs are `relevant`. Then these are looked up, and earlier ended runs cost nothing.
    Otherwise a page is full before it has skipped many of those.
    """
    statement = _matching(SUMMARIES, query, few=few and query.ended_after is None)
    if query.ended_after is not None:
        lately = run.c.ended_at > query.ended_after
        if few:
            live = _matching(sa.select(run.c.id).where(run.c.ended_at.is_(None)), query)
            ended = sa.select(run.c.id).where(lately)
            statement = statement.where(run.c.id.in_(sa.union_all(sa.select(live.subquery("live")), ended)))
        else:
            statement = statement.where(sa.or_(run.c.ended_at.is_(None), lately))
    return statement


def count(query: RunQuery) -> sa.Select[Any]:
    """The number of runs that match a query."""
    found = summaries(query).with_only_columns(run.c.id).limit(None).order_by(None)
    return sa.select(sa.func.count()).select_from(found.subquery("found"))


def _matching(statement: sa.Select[Any], query: RunQuery, *, few: bool = False) -> sa.Select[Any]:
    """The newest runs of the query, whenever they ended.

    For runs with a label it reads the index of labels from its newest run on: a label that nearly all have,
    or that few have, costs no more than a page. `few`: it looks up the labels of the runs in the states.
    """
    newest: sa.ColumnElement[Any] = run.c.id
    for number, (key, value) in enumerate(query.labels.items()):
        pair = run_label.alias(f"label_{number}")
        same = (pair.c.run_id == newest) & (pair.c.key == key) & (pair.c.value == value)
        if few:
            statement = statement.where(sa.exists().where(same))
            continue
        statement = statement.join(pair, same)
        newest = pair.c.run_id if number == 0 else newest
    statement = page(statement, newest, query, run, "name", "array_id", "array_index")
    if query.array_id is not None:  # the order of its ids as well, and that of an index
        statement = statement.order_by(None).order_by(run.c.array_index.desc())
    if query.without:
        statement = statement.where(sa.func.coalesce(run.c.array_id, "").not_in(sorted(query.without)))
    if query.ended_before is not None:
        statement = statement.where(run.c.ended_at < query.ended_before)
    return statement


def seen(statement: Chosen, table: sa.Table, sight: Sight | None) -> Chosen:
    """The statement for those runs or experiments alone that `sight` covers (None: all)."""
    if sight is None:
        return statement
    user, project = table.c.user_name, table.c.project
    of_others = user.not_in(sorted(sight.users)) if sight.users is not None else sa.false()
    closed = sa.or_(project.in_(sorted(sight.closed)), of_others)
    hidden = sa.and_(user != sight.user, project.not_in(sorted(sight.projects)), closed)
    return statement.where(~hidden)  # so SQLite still reads the newest first, and sorts nothing


# --- attempts ---------------------------------------------------------------------------------------

_ATTEMPTS = sa.select(*(attempt.c[name] for name in ATTEMPT_FIELDS))

ATTEMPTS = _ATTEMPTS.where(attempt.c.run_id == sa.bindparam("run_id")).order_by(attempt.c.number)
LIVE_ATTEMPTS = _ATTEMPTS.where(LIVE_ATTEMPT).order_by(attempt.c.run_id, attempt.c.number)


def put_attempts(dialect: str) -> Prepared:
    """Insert attempts, or replace them if their state may become the new one."""
    statement = _insert(attempt, dialect)
    new = statement.excluded
    return Prepared(
        statement.on_conflict_do_update(
            index_elements=[attempt.c.run_id, attempt.c.number],
            set_=_others(attempt, statement),
            where=sa.or_(
                attempt.c.state == new.state,
                *(
                    (attempt.c.state == before.value) & (new.state == after.value)
                    for before, following in ATTEMPT_TABLE.items()
                    for after in sorted(following)
                ),
            ),
        )
    )


# --- usage --------------------------------------------------------------------------------------------

USAGE = (
    sa.select(*usage.primary_key.columns, usage.c.slot_s)
    .where(usage.c.hour_at >= sa.bindparam("since"))
    .order_by(*usage.primary_key.columns)
)


@cache
def add_to(table: sa.Table, dialect: str) -> Prepared:
    """Add amounts to the rows with these keys."""
    statement, keys = _insert(table, dialect), list(table.primary_key.columns)
    added = {each.name: each + statement.excluded[each.name] for each in table.c if each not in keys}
    return Prepared(statement.on_conflict_do_update(index_elements=keys, set_=added))


# --- events -----------------------------------------------------------------------------------------

INSERT_EVENTS = Prepared(sa.insert(event).inline())

_EVENTS = sa.select(*(event.c[name] for name in EVENT_FIELDS))

EVENTS = _EVENTS.where(
    event.c.run_id == sa.bindparam("run_id"), event.c.seq > sa.bindparam("after_seq")
).order_by(event.c.seq)
FEED = Prepared(_EVENTS.where(event.c.id > sa.bindparam("after_id")).order_by(event.c.id).limit(_LIMIT))
LAST_EVENT_ID = sa.select(sa.func.coalesce(sa.func.max(event.c.id), 0))

# --- servers and nodes ------------------------------------------------------------------------------

SERVERS = Prepared(sa.select(*server.c).order_by(server.c.cluster))
LEASE = Prepared(
    sa.select(server.c.home, server.c.token).where(server.c.cluster == sa.bindparam("of_cluster"))
)
INSERT_SERVER = sa.insert(server)
UPDATE_SERVER = sa.update(server).where(
    server.c.cluster == sa.bindparam("guard_cluster"), server.c.token == sa.bindparam("guard_token")
)
DRAINED = sa.select(node.c.name, node.c.drain).where(node.c.drained)

RESERVATIONS = sa.select(reservation.c.body)
REMOVE_RESERVATION = sa.delete(reservation).where(reservation.c.name == sa.bindparam("guard_name"))

# --- clusters and datasets --------------------------------------------------------------------------

CLUSTERS = sa.select(cluster.c.body).order_by(cluster.c.name)
REMOVE_CLUSTER = sa.delete(cluster).where(cluster.c.name == sa.bindparam("guard_name"))
DATASETS = sa.select(dataset.c.body).order_by(dataset.c.id)
REMOVE_DATASET = sa.delete(dataset).where(dataset.c.id == sa.bindparam("guard_id"))


# --- metrics ----------------------------------------------------------------------------------------


def put(table: sa.Table, dialect: str) -> sa.Insert:
    """Insert rows, or replace them completely."""
    statement = _insert(table, dialect)
    keys = list(table.primary_key.columns)
    return statement.on_conflict_do_update(index_elements=keys, set_=_others(table, statement))


def _others(table: sa.Table, statement: postgresql.Insert | sqlite.Insert) -> dict[str, Any]:
    """The new values of all columns but the key."""
    return {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}


def put_position(dialect: str) -> sa.Insert:
    """Store the position in reports; the newest report stays if there is no newer one."""
    statement = _insert(metric_position, dialect)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=list(metric_position.primary_key.columns),
        set_={"read_to": new.read_to, "latest": sa.func.coalesce(new.latest, metric_position.c.latest)},
    )


def insert_or_skip(table: sa.Table, dialect: str) -> sa.Insert:
    """Insert a row unless there is one with its key; the number of rows of the result says which."""
    return _insert(table, dialect).on_conflict_do_nothing().execution_options(preserve_rowcount=True)


def _insert(table: sa.Table, dialect: str) -> postgresql.Insert | sqlite.Insert:
    """An insert with a clause for an existing row."""
    if dialect != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - most servers keep their records in SQLite

    return postgresql.insert(table)
