"""Every query finds its rows through an index: asked of SQLite's own planner."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Select, text
from sqlalchemy.dialects import sqlite

from tarmac.model.lifecycle import RunState
from tarmac.model.summary import RunQuery
from tarmac.store import open_store, secrets
from tarmac.store import statements as sql
from tarmac.store.database import Database

QUERIES: dict[str, Select[Any]] = {
    "runs by id": sql.RUNS_BY_ID.params(ids=["a", "b"]),
    "runs by key": sql.RUNS_BY_KEY.params(keys=["a", "b"]),
    "runs by name": sql.RUNS_BY_NAME.params(name="a", limit=1),
    "runs by prefix": sql.RUNS_BY_PREFIX.params(low="a", high="b", limit=1),
    "live runs": sql.LIVE_RUNS,
    "list": sql.summaries(RunQuery()),
    "list of a user": sql.summaries(RunQuery(user="a")),
    "list of a project": sql.summaries(RunQuery(project="a")),
    "list of a name": sql.summaries(RunQuery(name="a")),
    "list of states": sql.summaries(RunQuery(states=frozenset({RunState.QUEUED}))),
    "list of labels": sql.summaries(RunQuery(labels={"a": "b"})),
    "list of what ended": sql.summaries(RunQuery(ended_after=1.0)),
    "page of a list": sql.summaries(RunQuery(before_id="a", user="a")),
    "attempts": sql.ATTEMPTS.params(run_id="a"),
    "live attempts": sql.LIVE_ATTEMPTS,
    "events": sql.EVENTS.params(run_id="a", after_seq=1),
    "feed": sql.FEED.params(after_id=1, limit=1),
    "last event": sql.LAST_EVENT_ID,
    "usage": sql.USAGE.params(since=1.0),
    "clusters": sql.CLUSTERS,
    "secrets by name": secrets.NAMED.params(names=["a", "b"]),
    "lease": sql.LEASE.params(lease_name="a"),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Any:
    url = f"sqlite:///{tmp_path_factory.mktemp('indexes')}/tarmac.db"
    open_store(url).close()
    with closing(Database(url)) as opened:
        yield opened


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_reads_a_whole_table(database: Database, name: str) -> None:
    compiled = QUERIES[name].compile(
        dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True, "render_postcompile": True}
    )
    with database.reading() as connection:
        plan = [row.detail for row in connection.execute(text(f"EXPLAIN QUERY PLAN {compiled}"))]
    assert plan
    assert [line for line in plan if line.startswith("SCAN") and "INDEX" not in line] == []
    if name not in {"live runs", "list of what ended", "list of states"}:
        assert [line for line in plan if "TEMP B-TREE" in line] == [], "sorted by the index itself"
