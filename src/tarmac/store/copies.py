"""Copies of a whole database: to a file while servers use it, and back into an empty database.

Called by `server/backup.py`. SQLite copies itself; for PostgreSQL its own programs do, which must be on PATH.
"""

import os
import secrets
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import inspect

from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, Refused, TarmacError
from tarmac.store.database import Database, parse_url
from tarmac.store.rentals import SqlRentals
from tarmac.store.schema import provider
from tarmac.store.upgrade import schema_of

SQLITE_COPY, POSTGRES_COPY = "tarmac.db", "tarmac.dump"
"""The names of copies."""


def file_of(url: str) -> Path | None:
    """The file of a SQLite database; None for PostgreSQL."""
    sqlite = parse_url(url).get_backend_name() == "sqlite"
    return Path(url.partition(":///")[2]).absolute() if sqlite else None


def copy_database(url: str, directory: Path) -> str:
    """Write a consistent copy into a directory; returns the schema of the database."""
    path = file_of(url)
    if path is not None and not path.exists():
        raise NotFound(f"there is no database {path}", hint="TARMAC_HOME names the home of a server")
    with closing(Database(url)) as database, database.reading() as connection:
        schema = schema_of(connection) or "unknown"
    if path is None:
        _run_for_postgres("pg_dump", url, "--format=custom", f"--file={directory / POSTGRES_COPY}")
        return schema
    try:
        with closing(sqlite3.connect(path)) as source:
            source.execute("VACUUM INTO ?", (str(directory / SQLITE_COPY),))
    except sqlite3.Error as error:
        raise TarmacError(f"the database {path} cannot be copied to {directory}: {error}") from error
    return schema


def restore_database(url: str, directory: Path, *, room: Path) -> None:
    """Fill an empty database from a copy, whole or not at all. A file is written in `room` first.

    The providers of machines get new tags.
    """
    path = file_of(url)
    if path is not None:
        if path.exists():
            raise Refused(f"the database {path} exists already", hint="move it away first")
        copy = shutil.copy(directory / SQLITE_COPY, room)
        _renew_owners(f"sqlite:///{copy}")
        shutil.move(copy, path)
        return
    with closing(Database(url)) as database, database.reading() as connection:
        if inspect(connection).get_table_names():
            hint = (
                "use an empty one: dropdb and createdb, or [database] url in a settings.toml in the new home"
            )
            raise Refused(f"the database {database.name} is not empty", hint=hint)
    options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    _run_for_postgres("pg_restore", url, *options, str(directory / POSTGRES_COPY))
    _renew_owners(url)


def _renew_owners(url: str) -> None:
    """Give every provider a new tag: the server of the original may still rent under the old one."""
    with closing(Database(url)) as database:
        with database.reading() as connection:
            if not inspect(connection).has_table(provider.name):
                return  # of an older version
        rentals = SqlRentals(database)
        for record in rentals.providers():
            rentals.put_provider(replace(record, owner=secrets.token_urlsafe(24)))


def run_program(*argv: str, allowed: int = 0, **variables: str) -> None:
    """Run a program; raises TarmacError with its first words if its exit code is larger than allowed."""
    if shutil.which(argv[0]) is None:
        raise NotFound(
            f"the program {argv[0]} is not on PATH", hint="install it for the account of the server"
        )
    environment = {**os.environ, **variables}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if not 0 <= done.returncode <= allowed:
        words = next(filter(str.strip, done.stderr.splitlines()), f"exit code {done.returncode}")
        raise TarmacError(f"{argv[0]} failed: {words}")


def _run_for_postgres(program: str, url: str, *arguments: str) -> None:
    """Run a program of PostgreSQL. All users see its arguments, so the password is in its environment."""
    parsed = parse_url(url)
    password = parsed.password or parsed.query.get("password") or os.environ.get("PGPASSWORD", "")
    bare = parsed.set(drivername="postgresql", password="").difference_update_query(["password"])
    place = f"--dbname={bare.render_as_string(hide_password=False)}"
    run_program(program, "--no-password", place, *arguments, PGPASSWORD=str(password))
