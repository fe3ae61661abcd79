"""Copies of a PostgreSQL by its own programs; the end-to-end tests restore copies of both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from postgres import Server
from tarmac.model.errors import NotFound, Refused, TarmacError
from tarmac.store import open_store
from tarmac.store.copies import POSTGRES_COPY, copy_database, restore_database
from tarmac.store.schema import HEAD

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres: Server) -> str:
    """A database of tarmac, with a password in its URL."""
    made = postgres.create()
    open_store(made).close()
    return make_url(made).set(password="hush & $HOME").render_as_string(hide_password=False)


def test_a_copy_is_restored_into_an_empty_database_alone(url: str, postgres: Server, tmp_path: Path) -> None:
    assert copy_database(url, tmp_path) == HEAD
    with pytest.raises(Refused, match="is not empty"):
        restore_database(url, tmp_path, room=tmp_path)
    empty = postgres.create()
    (tmp_path / POSTGRES_COPY).rename(tmp_path / "aside")
    with pytest.raises(TarmacError, match="pg_restore failed: pg_restore: error: could not open"):
        restore_database(empty, tmp_path, room=tmp_path)
    (tmp_path / "aside").rename(tmp_path / POSTGRES_COPY)
    restore_database(empty, tmp_path, room=tmp_path)
    open_store(empty).close()


def test_a_password_is_no_argument(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All users of the machine see arguments."""
    program = tmp_path / "pg_dump"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\necho "$PGPASSWORD" > {tmp_path}/password\n'
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    copy_database(url, tmp_path)
    assert "hush" not in (tmp_path / "arguments").read_text()
    assert (tmp_path / "password").read_text() == "hush & $HOME\n"


def test_a_missing_program_is_named(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="the program pg_dump is not on PATH"):
        copy_database(url, tmp_path)
