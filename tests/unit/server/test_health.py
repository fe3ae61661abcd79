"""The check of the database: at once where it is small, beside the work where it is large."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from histories import new_run
from tarmac.model.errors import TarmacError
from tarmac.model.home import Home
from tarmac.server import health
from tarmac.server.health import DatabaseCheck
from tarmac.store import SqlStore, open_store

LIMIT_S = 120.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def store(home: Home) -> Iterator[SqlStore]:
    with closing(open_store(f"sqlite:///{home.database}")) as opened:
        yield opened


def damage(home: Home, store: SqlStore) -> None:
    """Spoil a page of the file, of which the header knows nothing."""
    store.create_runs([new_run(f"r{number}") for number in range(200)])
    store.close()
    with home.database.open("r+b") as file:
        file.seek(-3 * 4096, 2)
        file.write(b"\xff" * 3 * 4096)


def test_a_whole_file_passes(home: Home, store: SqlStore) -> None:
    check = DatabaseCheck(home, store)
    home.damage.write_text("found before\n")
    check.before_start()
    assert not home.damage.exists(), "it was repaired meanwhile"


def test_a_small_file_that_is_damaged_is_not_served(home: Home, store: SqlStore) -> None:
    damage(home, store)
    with pytest.raises(TarmacError, match="is damaged") as found:
        DatabaseCheck(home, store).before_start()
    assert found.value.hint is not None


def test_a_large_file_is_looked_through_beside_the_work(home: Home, store: SqlStore) -> None:
    damage(home, store)
    check, ended = DatabaseCheck(home, store, at_once_bytes=0), threading.Event()
    check.before_start()
    check.start(on_damage=ended.set)
    assert ended.wait(LIMIT_S)
    check.stop()
    assert home.damage.read_text()
    with pytest.raises(TarmacError, match="is damaged"):
        DatabaseCheck(home, store, at_once_bytes=0).before_start()


def test_the_look_ends_with_the_server(home: Home, store: SqlStore) -> None:
    assert health.LIMIT_S > LIMIT_S
    check = DatabaseCheck(home, store, at_once_bytes=0)
    check.before_start()
    check.start(on_damage=lambda: None)
    check.stop()
    assert not home.damage.exists()
