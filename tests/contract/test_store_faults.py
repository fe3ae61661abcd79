"""What the SQL stores promise when something breaks: nothing acknowledged is lost, nothing is half done."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import create_engine, insert, text

import store_client
from histories import new_run, placed
from tarmac.model.errors import InvalidInput, StorageFull, TarmacError, Unavailable
from tarmac.model.run import Run
from tarmac.store import SqlStore, open_store, rows
from tarmac.store import statements as sql
from tarmac.store.database import Database
from tarmac.store.schema import node

CLIENT = store_client.__file__


@contextmanager
def client(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of `store_client`, ready to go on."""
    with subprocess.Popen(
        [sys.executable, CLIENT, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline()) == {"ready": True}
            yield process
        finally:
            process.kill()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


# --- durability -------------------------------------------------------------------------------------


def test_a_commit_waits_for_the_disk(database_url: str) -> None:
    with closing(Database(database_url)) as database, database.writing() as connection:
        if database.dialect == "postgresql":
            assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"
            return
        found = {
            pragma: connection.execute(text(f"PRAGMA {pragma}")).scalar()
            for pragma in ("journal_mode", "synchronous", "foreign_keys")
        }
        full = 2
        assert found == {"journal_mode": "wal", "synchronous": full, "foreign_keys": 1}


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/tarmac.db")) as store:
        store.create_runs([new_run("r1")])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"tarmac.db": 0o600, "tarmac.db-wal": 0o600, "tarmac.db-shm": 0o600}


def test_what_was_acknowledged_survives_kill_9(database_url: str) -> None:
    with client("accept", database_url, "a", "100000") as process:
        assert process.stdout is not None
        go(process)
        acknowledged = [json.loads(process.stdout.readline())["id"] for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [json.loads(line)["id"] for line in process.stdout if line.endswith("}\n")]
    with closing(open_store(database_url)) as store:
        live = {run.id: run for run in store.live_runs()}
        assert live.keys() >= set(acknowledged)
        assert all(live[run_id].attempt == 1 for run_id in acknowledged)
        assert len(live) - len(acknowledged) <= 1, "at most the one in flight"
        assert len(store.live_attempts()) in (len(live), len(live) - 1)
        assert len(store.feed(after_id=0, limit=10**6)) == sum(run.seq for run in live.values())


# --- several servers on one database ----------------------------------------------------------------


def test_two_servers_agree_on_every_key_and_the_feed_has_no_gap(database_url: str) -> None:
    """Each accepts a run under the same keys, at once; whoever comes second is told of the first's."""
    count = 30
    with (
        closing(open_store(database_url)) as reader,
        client("accept", database_url, "a", str(count)) as one,
        client("accept", database_url, "b", str(count)) as two,
    ):
        go(one)
        go(two)
        seen = []
        while one.poll() is None or two.poll() is None:
            seen += reader.feed(after_id=seen[-1].id if seen else 0)
        seen += reader.feed(after_id=seen[-1].id)
        assert seen == reader.feed(after_id=0, limit=10**6), "no event appears below one that was seen"
        answers = [
            [json.loads(line)["id"] for line in process.stdout] for process in (one, two) if process.stdout
        ]
        assert answers[0] == answers[1]
        assert sorted(run.id for run in reader.live_runs()) == sorted(answers[0])


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_key_that_appears_while_we_insert_gives_the_stored_run(database_url: str) -> None:
    """Whoever writes without our lock (another tool, a restored copy) still cannot make two runs of a key."""
    theirs, ours = new_run("theirs", key="k"), new_run("ours", key="k")
    answers: list[list[Run]] = []
    engine = create_engine(database_url)
    with closing(open_store(database_url)) as store, engine.connect() as outsider:
        outsider.begin()
        sql.INSERT_RUNS.execute(outsider, [rows.of_new_run(theirs.run)])
        sql.INSERT_SPECS.execute(outsider, list(rows.of_specs([theirs.run])))
        waiting = Thread(target=lambda: answers.append(store.create_runs([ours])))
        waiting.start()
        with engine.connect() as observer:
            while not observer.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar():
                assert waiting.is_alive()
        outsider.commit()
        waiting.join()
        assert answers == [[theirs.run]]
        assert [run.id for run in store.live_runs()] == ["theirs"]
    engine.dispose()


def test_a_writer_that_never_ends_makes_the_others_unavailable(database_url: str) -> None:
    with (
        closing(Database(database_url, patience_s=0.05)) as database,
        closing(Database(database_url)) as other,
    ):
        store = SqlStore(database)
        with other.writing():
            with pytest.raises(Unavailable):
                store.create_runs([new_run("r1")])
            assert list(store.live_runs()) == [], "reading goes on"
        assert len(store.create_runs([new_run("r1")])) == 1


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_restarted_database_is_found_again(database_url: str) -> None:
    engine = create_engine(database_url)
    with closing(open_store(database_url)) as store, engine.connect() as administrator:
        store.create_runs([new_run("r1")])
        administrator.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        assert [run.id for run in store.live_runs()] == ["r1"]
        assert len(store.create_runs([new_run("r2")])) == 1
    engine.dispose()


# --- full disks -------------------------------------------------------------------------------------


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """A real one: a file system of a megabyte, mounted for one process alone."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount a tiny disk")
    script = 'mount -t tmpfs -o size=1700k none "$1" && exec "$2" "$3" fill "$1"'
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", tmp_path, sys.executable, CLIENT],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in result.stderr or "mount:" in result.stderr:
        pytest.skip(f"this machine mounts nothing: {result.stderr.strip()}")
    assert result.stderr == ""
    full, after = (json.loads(line) for line in result.stdout.splitlines())
    assert full["accepted"] > 3
    assert after["accepted"] == full["accepted"] + 1, "the same store goes on once there is room"
    assert after["taken"] == full["taken"] + 1
    for found in (full, after):
        assert (found["runs"], found["attempts"]) == (found["accepted"], found["taken"])
        assert found["events"] == found["seqs"] == 2 * found["accepted"] + found["taken"]


def test_a_database_at_its_size_limit_refuses_and_goes_on_later(database_url: str) -> None:
    with closing(Database(database_url)) as database:
        store = SqlStore(database)
        (run,) = store.create_runs([new_run("r0")])
        _make_full(database)
        with pytest.raises(StorageFull):
            store.create_runs([new_run(f"r{number}", source="x" * 50_000) for number in range(1, 9)])
        assert [found.id for found in store.live_runs()] == ["r0"], "all or none"
        assert len(store.events("r0")) == run.seq
        _make_room(database)
        assert len(store.create_runs([new_run("r1", source="x" * 50_000)])) == 1
        assert store.apply([placed(run)]) == [True]


def _make_full(database: Database) -> None:
    with database.writing() as connection:
        if database.dialect == "sqlite":
            connection.execute(text("PRAGMA max_page_count = 1"))  # as small as it can be: what it has now
            return
        connection.execute(
            text(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
            )
        )
        connection.execute(
            text("CREATE TRIGGER full_disk BEFORE INSERT ON run_spec EXECUTE FUNCTION full_disk()")
        )


def _make_room(database: Database) -> None:
    with database.writing() as connection:
        if database.dialect == "sqlite":
            connection.execute(text("PRAGMA max_page_count = 1000000"))
        else:
            connection.execute(text("DROP TRIGGER full_disk ON run_spec"))


# --- what is in the way -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://h/d",
        "oracle+none://h/d",
        "sqlite+none:///a",
    ],
)
def test_a_url_of_no_use_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_store(url)
    assert "sqlite:///" in str(caught.value)


def test_any_path_will_do(tmp_path: Path) -> None:
    directory = tmp_path / "a b?mode=ro#%20é"
    directory.mkdir()
    open_store(f"sqlite:///{directory}/tarmac.db").close()
    assert (directory / "tarmac.db").exists()


def test_what_cannot_be_reached_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        open_store(f"sqlite:///{tmp_path}/missing/tarmac.db")
    with pytest.raises(Unavailable):
        open_store(f"sqlite:///{tmp_path}")
    with pytest.raises(Unavailable) as caught:
        open_store(f"postgresql://someone:secret@/tarmac?host={tmp_path}")
    assert "secret" not in str(caught.value)


def test_a_damaged_file_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "tarmac.db"
    path.write_bytes(b"not a database " * 1000)
    with pytest.raises(TarmacError, match="damaged"):
        open_store(f"sqlite:///{path}")


def test_a_transaction_that_an_exception_leaves_never_was(database_url: str) -> None:
    def interrupted(database: Database) -> None:
        with database.writing() as connection:
            connection.execute(insert(node), {"name": "node-1", "drained": True})
            raise KeyboardInterrupt

    with closing(Database(database_url)) as database:
        with pytest.raises(KeyboardInterrupt):
            interrupted(database)
        assert SqlStore(database).drained_nodes() == {}
