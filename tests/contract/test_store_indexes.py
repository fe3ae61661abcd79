"""Every query finds its rows through an index: asked of SQLite's own planner, and of its count of steps."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, text
from sqlalchemy.dialects import sqlite

from tarmac.model.actor import Sight
from tarmac.model.lifecycle import LIVE_STATES, RunState
from tarmac.model.summary import RunQuery
from tarmac.store import limits, open_store, rentals, secrets, spans
from tarmac.store import statements as sql
from tarmac.store.database import Database
from tarmac.store.schema import metadata

SIGHT = Sight(user="a", users=frozenset({"b"}), projects=frozenset({"p"}), closed=frozenset({"q"}))
QUERIES: dict[str, Select[Any]] = {
    "runs by id": sql.RUNS_BY_ID.params(ids=["a", "b"]),
    "runs by key": sql.RUNS_BY_KEY.params(ids=["a", "b"]),
    **{
        f"runs by {word}": query.params(reference="a", end="b", user="a", limit=1)
        for word, query in zip(
            ("reference", "name of user", "name", "prefix"), sql.RUNS_BY_REFERENCE, strict=True
        )
    },
    "ids of live runs": sql.LIVE_IDS,
    "live runs": sql.LIVE_RUNS.params(first="a", last="b"),
    "list": sql.summaries(RunQuery()),
    "list of a user": sql.summaries(RunQuery(user="a")),
    "list of a project": sql.summaries(RunQuery(project="a")),
    "list of a name": sql.summaries(RunQuery(name="a")),
    "list of states": sql.summaries(RunQuery(states=frozenset({RunState.QUEUED}))),
    "list of labels": sql.summaries(RunQuery(labels={"a": "b"})),
    "list of what ended": sql.summaries(RunQuery(ended_after=1.0)),
    "list of the few that ended": sql.summaries(RunQuery(ended_after=1.0), few=True),
    "how many ended": sql.relevant(RunQuery(ended_after=1.0)),
    "members of an array": sql.ARRAY_COUNTS.params(array_id="a"),
    "how many are in no array": sql.count(
        RunQuery(states=frozenset(LIVE_STATES), before_id="b", without=frozenset({"a"}))
    ),
    "page of a list": sql.summaries(RunQuery(before_id="a", user="a")),
    "attempts": sql.ATTEMPTS.params(run_id="a"),
    "live attempts": sql.LIVE_ATTEMPTS,
    "events": sql.EVENTS.params(run_id="a", after_seq=1),
    "feed": sql.FEED.statement.params(after_id=1, limit=1),
    "last event": sql.LAST_EVENT_ID,
    "usage": sql.USAGE.params(since=1.0),
    "usage of removed runs": spans.REMOVED.params(since=1.0),
    "usage by day": spans.BY_DAY.params(since=1.0, until=2.0),
    "live attempts as usage": spans.LIVE,
    "ended attempts as usage": spans.ENDED.params(since=1.0, until=2.0),
    "attempts to remove": spans.TO_REMOVE.params(ids=["a", "b"]),
    "clusters": sql.CLUSTERS,
    "open rentals": rentals.OPEN,
    "rentals of runs": rentals.OF_RUNS.params(ids=["a", "b"]),
    "rentals since": rentals.SINCE.params(since=1.0),
    "secrets by name": secrets.NAMED.params(ids=["a", "b"]),
    "charges of runs": limits.CHARGED.params(ids=["a", "b"]),
    "ledger": limits.PAGE.params(before=9, at_most=1),
    "ledger of an account": limits.PAGE_OF.params(before=9, at_most=1, of_account="a"),
    "list of what one may see": sql.summaries(RunQuery(sight=SIGHT)),
    "lease": sql.LEASE.statement.params(of_cluster="a"),
    "servers": sql.SERVERS.statement,
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    url = f"sqlite:///{tmp_path_factory.mktemp('indexes')}/tarmac.db"
    open_store(url).close()
    with closing(Database(url)) as opened:
        yield opened


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_reads_a_whole_table(database: Database, name: str) -> None:
    plan = _plan(database, QUERIES[name])
    assert plan
    scanned = [line.split()[1] for line in plan if line.startswith("SCAN") and "INDEX" not in line]
    assert [name for name in scanned if name in metadata.tables] == []
    if name not in {"ids of live runs", "live runs", "list of the few that ended", "list of states"}:
        assert [line for line in plan if "TEMP B-TREE" in line] == [], "sorted by the index itself"


@pytest.mark.parametrize("name", ["members of an array", "how many are in no array"])
def test_runs_of_arrays_are_counted_without_a_look_at_each(database: Database, name: str) -> None:
    """A row is several times as long as its entry in an index."""
    assert all("USING COVERING INDEX" in line for line in _plan(database, QUERIES[name]))


HISTORIES = {
    "all ended lately": "{at} + 1",
    "all ended long ago": "{at} - 1",
    "all wait": "NULL",
    "few ended lately, the oldest wait": "CASE WHEN n < 100 THEN NULL ELSE {at} + (n > 19990) END",
}
"""When run `n` of 20,000 ended, as SQL; `at`: what ended before is not listed."""


@pytest.mark.parametrize("history", HISTORIES)
def test_a_page_costs_the_same_however_many_runs_there_are(tmp_path: Path, history: str) -> None:
    """C3: a page of the list reads about as many rows as it shows, not those that ended in two weeks."""
    few, many = (_steps_of_a_page(tmp_path, HISTORIES[history], runs) for runs in (4_000, 20_000))
    assert many < 1.5 * few + 5_000


@pytest.mark.parametrize("every", [1, 100, 100_000], ids=["all have", "few have", "one has"])
def test_a_page_of_a_label_costs_the_same_however_many_runs_have_it(tmp_path: Path, every: int) -> None:
    label = f"INSERT INTO run_label SELECT id, 'team', 'vision' FROM run WHERE substr(id, 2) % {every} = 0"
    query = RunQuery(labels={"team": "vision"}, limit=50)
    few, many = (_steps_of_a_page(tmp_path, "NULL", runs, label, query) for runs in (4_000, 20_000))
    assert many < 1.5 * few + 5_000


def test_a_name_is_looked_up_without_a_look_at_the_other_runs_of_the_user(tmp_path: Path) -> None:
    """N5."""
    query = sql.RUNS_BY_REFERENCE[1].params(reference="b", user="u", limit=10)
    few, many = (_steps_of_a_page(tmp_path, "NULL", runs, query=query) for runs in (4_000, 20_000))
    assert many < 1.5 * few + 5_000


def test_live_runs_with_a_label_cost_nothing_for_each_ended_run_that_has_it(tmp_path: Path) -> None:
    """N5: where few runs are live, it is their labels that are looked up."""
    label = "INSERT INTO run_label SELECT id, 'team', 'vision' FROM run"
    ended = f"{label}; UPDATE run SET state = 'ended' WHERE substr(id, 2) < '019990'"
    query = RunQuery(states=frozenset(LIVE_STATES), labels={"team": "vision"}, limit=50)
    few, many = (_steps_of_a_page(tmp_path, "NULL", runs, ended, query) for runs in (4_000, 20_000))
    assert many < 1.5 * few + 5_000


def _steps_of_a_page(
    directory: Path,
    ended_at: str,
    runs: int,
    more: str = "SELECT 1",
    query: RunQuery | Select[Any] | None = None,
) -> int:
    """How many steps of its virtual machine SQLite takes, in hundreds, for the first page among so many."""
    path, at = directory / f"{runs}.db", 1e6
    open_store(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            f"""WITH RECURSIVE each(n) AS (SELECT 20000 - {runs}
                UNION ALL SELECT n + 1 FROM each WHERE n < 19999)
            INSERT INTO run (id, seq, state, name, project, user_name, dialect, priority, slots, attempt,
                created_at, ended_at, failures, faults, preemptions)
            SELECT printf('r%06d', n), 1, 'queued', 'a', 'p', 'u', 'native', 0, 1, 1, n,
                {ended_at.format(at=at)}, 0, 0, 0 FROM each"""
        )
        connection.executescript(more)
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 100
            return 0

        connection.set_progress_handler(count, 100)
        if isinstance(query, Select):
            _rows(connection, query)
            return steps
        query = query or RunQuery(ended_after=at, limit=50)
        counted = sql.relevant(query)
        few = counted is not None and _rows(connection, counted)[0][0] <= sql.FEW
        assert len(_rows(connection, sql.summaries(query, few=few))) <= query.limit
        return steps


def _plan(database: Database, query: Select[Any]) -> list[str]:
    compiled = query.compile(
        dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True, "render_postcompile": True}
    )
    with database.reading() as connection:
        return [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}"))]


def _rows(connection: sqlite3.Connection, statement: Select[Any]) -> list[Any]:
    options = {"literal_binds": True, "render_postcompile": True}
    return connection.execute(
        str(statement.compile(dialect=sqlite.dialect(), compile_kwargs=options))
    ).fetchall()
