"""The schema: what the migrations build is what the code declares, on every database, and it only goes up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from histories import attempt_of, new_run, step
from postgres import Server
from tarmac.model.cluster import Cluster, NodeGroup
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState
from tarmac.model.run import Milestones, QueuePosition
from tarmac.model.spec import Mode
from tarmac.model.summary import RunQuery
from tarmac.store import open_store
from tarmac.store.database import Database
from tarmac.store.schema import HEAD
from tarmac.store.upgrade import SCRIPTS

_RUN = (
    "INSERT INTO run (id, seq, state, name, project, user_name, dialect, priority, slots, attempt,"
    " created_at, failures, faults, preemptions) VALUES "
)
_EVENT = "INSERT INTO event (run_id, seq, at, event, state) VALUES "
FIRST_VERSION = (
    _RUN + "('r1', 2, 'queued', 'hello', 'default', 'ada', 'native', 3, 0, 0, 1.0, 0, 0, 0)",
    _RUN + "('r2', 1, 'starting', 'hello', 'default', 'ada', 'native', 0, 0, 1, 2.0, 0, 0, 0)",
    "INSERT INTO run_spec SELECT id, "
    """'{"name":"hello","roles":[{"processes":[{"command":{"argv":["true"]}}]}],"priority":'"""
    " || priority || '}' FROM run",
    "INSERT INTO attempt (run_id, number, state, engine, cluster, allocation, token, master_port, created_at)"
    """ VALUES ('r2', 1, 'starting', 'local', 'local', '{"cluster":"local","seats":[]}', 't', 29000, 3.0)""",
    _EVENT + "('r1', 1, 1.0, 'accepted', 'pending')",
    _EVENT + "('r1', 2, 1.0, 'staged', 'queued')",
    _EVENT + "('r2', 1, 2.0, 'accepted', 'pending')",
)
"""Two runs as the first version kept them."""

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(params=["sqlite", POSTGRES])
def two_urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/one.db", f"sqlite:///{tmp_path}/two.db"
        return
    server: Server = request.getfixturevalue("postgres")
    urls = server.create(), server.create()
    yield urls
    for url in urls:
        server.drop(url)


def test_the_schema_is_the_sum_of_its_migrations(two_urls: tuple[str, str]) -> None:
    """What an empty database gets at once is what an old one comes to, the record of its version included."""
    migrated, created = two_urls
    with write(migrated) as connection:
        migrate(connection, "0001")
    open_store(migrated).close()
    open_store(created).close()
    assert reflected(migrated) == reflected(created)


def test_words_outside_the_model_are_refused(database_url: str) -> None:
    with closing(open_store(database_url)) as store:
        store.create_runs([new_run("r1")])
    for change in (
        "UPDATE run SET state = 'vanished'",
        "UPDATE run SET outcome = 'lost'",
        "UPDATE event SET event = 'imagined'",
        "INSERT INTO event (run_id, seq, at, event, state) VALUES ('r9', 1, 1.0, 'accepted', 'pending')",
    ):
        with pytest.raises(Refused, match="refused a change"), write(database_url) as connection:
            connection.execute(text(change))


def test_a_new_database_is_made_and_an_old_one_kept(two_urls: tuple[str, str]) -> None:
    url, _ = two_urls
    with closing(open_store(url)) as store:
        store.create_runs([new_run("r1")])
    with closing(open_store(url)) as store:
        assert [run.id for run in store.live_runs()] == ["r1"]
    with read(url) as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD


def test_a_database_of_the_first_version_is_upgraded_with_its_runs(two_urls: tuple[str, str]) -> None:
    """Runs, attempts and events are what they were, and the new events may happen to them."""
    url, _ = two_urls
    with write(url) as connection:
        migrate(connection, "0001")
        for statement in FIRST_VERSION:
            connection.execute(text(statement))
    with closing(open_store(url)) as store:
        queued, running = store.live_runs()
        assert (queued.id, queued.state, queued.place.priority, queued.turns) == ("r1", RunState.QUEUED, 3, 0)
        assert (running.attained_slot_s, running.share, running.queue_position) == (0.0, None, None)
        (attempt,) = store.live_attempts()
        assert (attempt.id, attempt.milestones, attempt.allotted_s) == ("r2.1", Milestones(), None)
        assert attempt.allocation.pool == "default"
        assert [event.id for event in store.feed(after_id=0)] == [1, 2, 3]
        (summary, _) = store.runs(RunQuery())
        assert (summary.mode, summary.pool) == (Mode.BATCH, None)
        moved = step(queued, RunEvent.REORDERED, queue_position=QueuePosition(priority=4, weight=1.0))
        assert store.apply([moved]) == [True]
        assert store.run("r1") == moved.after
        assert [event.id for event in store.events("r1")] == [1, 2, 4], "ids go on where they were"
        assert store.apply([step(running, RunEvent.RELEASED, attempt=attempt)]) == [True]


def test_what_was_assigned_to_a_cluster_stands_apart_from_its_description(two_urls: tuple[str, str]) -> None:
    url, _ = two_urls
    body = '{"name":"lab","groups":[{"nodes":2,"slots":8}],"first_address":"127.128.0.1"}'
    with write(url) as connection:
        migrate(connection, "0011")
        connection.execute(text("INSERT INTO cluster (name, body) VALUES ('lab', :body)"), {"body": body})
    with closing(open_store(url)) as store:
        (cluster,) = store.clusters()
    assert cluster.assigned == {"first_address": "127.128.0.1"}
    assert cluster == Cluster(name="lab", groups=(NodeGroup(nodes=2, slots=8),), assigned=cluster.assigned)


def test_a_run_that_was_there_before_may_be_submitted_to_a_queue(two_urls: tuple[str, str]) -> None:
    """The words of states are changed where they stand: rows, keys and what refers to them stay."""
    url, _ = two_urls
    with write(url) as connection:
        migrate(connection, "0010")
        for statement in FIRST_VERSION:
            connection.execute(text(statement))
    with closing(open_store(url)) as store:
        queued, _ = store.live_runs()
        waits = attempt_of(queued, state=AttemptState.SUBMITTED, master_port=None)
        assert store.apply([step(queued, RunEvent.SUBMITTED, attempt=waits)]) == [True]
        assert store.attempts(queued.id) == [waits]
        assert [event.event for event in store.events(queued.id)][-1] is RunEvent.SUBMITTED


def test_two_servers_may_start_on_a_new_database_at_once(two_urls: tuple[str, str]) -> None:
    url, _ = two_urls
    program = (
        "import sys; sys.stdin.read(1); from tarmac.store import open_store; open_store(sys.argv[1]).close()"
    )
    servers = [
        subprocess.Popen(
            [sys.executable, "-c", program, url], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    answers = [server.communicate("x", timeout=60) for server in servers]
    assert [(server.returncode, errors) for server, (_, errors) in zip(servers, answers, strict=True)] == [
        (0, "")
    ] * 3


def test_a_database_of_a_newer_tarmac_is_refused_untouched(database_url: str) -> None:
    with write(database_url) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Refused, match="newer tarmac"):
        open_store(database_url)


def test_a_start_without_a_migration_does_not_import_alembic(tmp_path: Path) -> None:
    """The start of a server is felt by whoever waits for it; Alembic alone would double it."""
    url = f"sqlite:///{tmp_path}/tarmac.db"
    program = (
        "import sys; from tarmac.store import open_store; open_store(sys.argv[1]).close();"
        "sys.exit('alembic' in sys.modules)"
    )
    for _ in ("a new database", "one of this version"):
        subprocess.run([sys.executable, "-c", program, url], check=True)


def test_there_is_one_newest_migration_and_no_way_down() -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [HEAD]
    assert [
        script.revision for script in scripts.walk_revisions() if hasattr(script.module, "downgrade")
    ] == []


def migrate(connection: Connection, revision: str) -> None:
    """Bring an empty database to an older version of the schema."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


@contextmanager
def read(url: str) -> Iterator[Connection]:
    with closing(Database(url)) as database, database.reading() as connection:
        yield connection


@contextmanager
def write(url: str) -> Iterator[Connection]:
    with closing(Database(url)) as database, database.writing() as connection:
        yield connection


def reflected(url: str) -> dict[str, Any]:
    """Everything that the database itself says of its tables, in a form that can be compared."""
    with read(url) as connection:
        return {table: _table(connection, table) for table in inspect(connection).get_table_names()}


def _table(connection: Connection, table: str) -> dict[str, Any]:
    found = inspect(connection)
    columns = found.get_columns(table)
    assert columns
    return {
        "columns": [{**column, "type": _type(column["type"])} for column in columns],
        "primary key": found.get_pk_constraint(table),
        "foreign keys": _sorted(found.get_foreign_keys(table)),
        "unique": _sorted(found.get_unique_constraints(table)),
        "checks": _sorted(found.get_check_constraints(table)),
        "indexes": [
            {**index, "dialect_options": {key: str(value) for key, value in index["dialect_options"].items()}}
            for index in _sorted(found.get_indexes(table))
        ],
    }


def _type(kind: Any) -> tuple[str, str | None]:
    return str(kind), getattr(kind, "collation", None)


def _sorted(things: list[Any]) -> list[Any]:
    return sorted(things, key=lambda thing: str(thing["name"]))
