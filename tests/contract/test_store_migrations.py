"""The schema: what the migrations build is what the code declares, on every database, and it only goes up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from histories import ended, new_run, placed, step
from postgres import Server
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import LeaveRequest, RunEvent, RunState
from tarmac.model.people.usage import UsedSlots
from tarmac.model.ports import Store
from tarmac.model.run import QueuePosition
from tarmac.store import open_store
from tarmac.store.database import Database
from tarmac.store.schema import BASE, HEAD
from tarmac.store.upgrade import SCRIPTS, VERSION_TABLE

SCHEMAS = Path(__file__).with_name("schemas")
"""What databases of older versions looked like; `upgrade` starts from any of them."""

_RUN = (
    "INSERT INTO run (id, seq, state, name, project, user_name, dialect, priority, slots, attempt,"
    " created_at, failures, faults, preemptions) VALUES "
)
_EVENT = "INSERT INTO event (run_id, seq, at, event, state) VALUES "
FIRST_VERSION = (
    _RUN + "('r1', 3, 'queued', 'hello', 'default', 'ada', 'native', 3, 0, 0, 1.0, 0, 0, 0)",
    _RUN + "('r2', 2, 'pausing', 'hello', 'default', 'ada', 'native', 0, 0, 1, 2.0, 0, 0, 0)",
    "INSERT INTO run_spec SELECT id, "
    """'{"name":"hello","roles":[{"processes":[{"command":{"argv":["true"]}}]}],"priority":'"""
    " || priority || '}' FROM run",
    "INSERT INTO attempt (run_id, number, state, engine, cluster, allocation, token, master_port, created_at,"
    " leave_request, leave_requested_at) VALUES ('r2', 1, 'starting', 'local', 'local',"
    """ '{"cluster":"local","placements":[]}', 't', 29000, 3.0, 'pause', 4.0)""",
    _EVENT + "('r1', 1, 1.0, 'accepted', 'pending')",
    _EVENT + "('r1', 2, 1.0, 'staged', 'queued')",
    _EVENT + "('r2', 1, 2.0, 'accepted', 'pending')",
    _EVENT + "('r2', 2, 2.0, 'pause_requested', 'pausing')",
)
"""Two runs as the oldest version stored them."""

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
        create(connection, BASE)
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


def test_a_database_of_the_oldest_version_is_upgraded_with_its_runs(two_urls: tuple[str, str]) -> None:
    """Runs, attempts and events are what they were, and the new events may happen to them."""
    url, _ = two_urls
    with write(url) as connection:
        create(connection, BASE)
        for statement in FIRST_VERSION:
            connection.execute(text(statement))
    with closing(open_store(url)) as store:
        queued, pausing = store.live_runs()
        assert (queued.id, queued.state, queued.place.priority, queued.turns) == ("r1", RunState.QUEUED, 3, 0)
        assert (pausing.attained_slot_s, pausing.share, pausing.queue_position) == (0.0, None, None)
        (attempt,) = store.live_attempts()
        assert (attempt.id, attempt.leave_request) == ("r2.1", LeaveRequest.PAUSE)
        assert [event.event for event in store.events("r2")] == [RunEvent.ACCEPTED, RunEvent.PAUSE_REQUESTED]
        assert [event.id for event in store.feed(after_id=0)] == [1, 2, 3, 4]
        moved = step(queued, RunEvent.REORDERED, queue_position=QueuePosition(priority=4, weight=1.0))
        assert store.apply([moved]) == [True]
        assert store.run("r1") == moved.after
        assert [event.id for event in store.events("r1")] == [1, 2, 5], "ids go on where they were"
        assert store.apply([step(pausing, RunEvent.STOP_REQUESTED, attempt=attempt)]) == [True]


def test_a_run_of_the_oldest_version_keeps_its_usage_when_it_is_removed(two_urls: tuple[str, str]) -> None:
    url, _ = two_urls
    with write(url) as connection:
        create(connection, BASE)
        for statement in FIRST_VERSION:
            connection.execute(text(statement))
        connection.execute(text("UPDATE attempt SET state = 'ended', outcome = 'lost', ended_at = 9.0"))
        connection.execute(text("UPDATE run SET state = 'ended', outcome = 'failed' WHERE id = 'r2'"))
    with closing(open_store(url)) as store:
        before = store.attempt_spans(0.0, 10.0)
        assert [(span.run_id, span.begin, span.end) for span in before] == [("r2", 3.0, 9.0)]
        assert store.remove_runs(["r2"]) == {"r2"}
        assert store.attempt_spans(0.0, 10.0) == before


def test_the_usage_of_attempts_from_before_the_sums_is_added_up(two_urls: tuple[str, str]) -> None:
    """The upgrade counts ended attempts, live ones not, and those of removed runs, as the store does."""
    url, _ = two_urls
    with closing(open_store(url)) as store:
        runs = store.create_runs([new_run(f"r{number}") for number in range(3)])
        starts = [placed(run) for run in runs]
        assert all(store.apply(starts))
        ends = [ended(starts[at].after, 1.0, at=(at + 1) * 90_000.0) for at in range(2)]
        assert all(store.apply(ends))
        assert store.apply([step(ends[1].after, RunEvent.STOP_REQUESTED)]) == [True]
        assert store.remove_runs(["r1"]) == {"r1"}
        before = sorted_days(store)
        assert [each.begin_at for each in before] == [0.0, 86_400.0, 172_800.0]
    with write(url) as connection:
        for change in (
            *(f"DROP TABLE {name}" for name in ("usage_day", "rental", "stock", "shape", "provider")),
            "DROP INDEX ix_attempt_ended_at",
            "DROP INDEX ix_run_members",
            "UPDATE alembic_version SET version_num = '0035'",
        ):
            connection.execute(text(change))
    with closing(open_store(url)) as store:
        assert sorted_days(store) == before


def sorted_days(store: Store) -> list[UsedSlots]:
    used, _ = store.used_slots((0.0, 1e6), [], by_day=True)
    return sorted(used, key=lambda each: each.begin_at or 0.0)


@pytest.mark.parametrize("version", ["0027", None])
def test_a_database_from_before_the_first_release_is_refused_untouched(
    database_url: str, version: str | None
) -> None:
    change = (
        f"UPDATE alembic_version SET version_num = '{version}'" if version else "DROP TABLE alembic_version"
    )
    with write(database_url) as connection:
        connection.execute(text(change))
    before = reflected(database_url)
    with pytest.raises(Refused, match="before the first release"):
        open_store(database_url)
    assert reflected(database_url) == before


@pytest.mark.heavy
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


def create(connection: Connection, version: str) -> None:
    """Make an empty database one of an older version."""
    schema = (SCHEMAS / f"{version}.{connection.dialect.name}.sql").read_text()
    for statement in (*schema.split(";\n"), VERSION_TABLE):
        if statement.strip():
            connection.execute(text(statement))
    connection.execute(text(f"INSERT INTO alembic_version VALUES ('{version}')"))


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
