"""A PostgreSQL server for tests, and empty databases on it. Used by the fixtures in tests/contract.

TARMAC_TEST_POSTGRES_URL names a server that is there; otherwise Debian's binaries are started on a private
directory: a unix socket and no network, no durability (what survives a crash of PostgreSQL is its business).
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from sqlalchemy import URL, Connection, create_engine, make_url

SERVER_URL = "TARMAC_TEST_POSTGRES_URL"
BINARIES = "/usr/lib/postgresql"
ROOT_BECOMES = "postgres"
READY = b"ready to accept connections"
MEMORY = Path("/dev/shm")
ROOM_BYTES = 2 << 30
"""The free memory with which databases are in memory: on a disk, most time of a test is that of its files."""


class Missing(Exception):
    """There is no PostgreSQL on this machine; the message says what to do about it."""


class Server:
    """A running server; `create` gives the URL of a new database on it."""

    def __init__(self, url: URL) -> None:
        self._url = url.set(drivername="postgresql+psycopg")
        self._created: list[str] = []

    def create(self, *, template: str = "template0") -> str:
        """A new database, empty or a copy of another one (to which nobody may be connected)."""
        name = f"tarmac_test_{secrets.token_hex(6)}"
        with self._administration() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        self._created.append(name)
        return self._url.set(database=name).render_as_string(hide_password=False)

    def drop(self, url: str) -> None:
        """Remove a database made by `create`, whoever is connected to it."""
        name = make_url(url).database or ""
        self._created.remove(name)
        with self._administration() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")

    def drop_all(self) -> None:
        """Remove every database made by `create`."""
        for name in list(self._created):
            self.drop(self._url.set(database=name).render_as_string())

    @contextmanager
    def _administration(self) -> Iterator[Connection]:
        engine = create_engine(self._url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()


@contextmanager
def running_server() -> Iterator[Server]:
    """The server to test against; raises Missing."""
    if given := os.environ.get(SERVER_URL):
        server = Server(make_url(given))
        try:
            yield server
        finally:
            server.drop_all()
        return
    binaries = _binaries()
    place = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES else "/tmp"
    directory = Path(tempfile.mkdtemp(prefix="postgres-of-tests-", dir=place))  # socket paths are short
    try:
        if os.geteuid() == 0:
            shutil.chown(directory, ROOT_BECOMES, ROOT_BECOMES)
        _initialise(binaries, directory)
        with _serving(binaries, directory):
            yield Server(
                URL.create("postgresql", "postgres", query={"host": str(directory)}, database="postgres")
            )
    finally:
        shutil.rmtree(directory)


def _binaries() -> Path:
    found = sorted(Path(BINARIES).glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise Missing(f"no PostgreSQL here: install Debian's package postgresql, or set {SERVER_URL}")
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        raise Missing("PostgreSQL refuses to run as root, and there is no setpriv to become another user")
    return found[-1].parent


def _initialise(binaries: Path, directory: Path) -> None:
    subprocess.run(
        [
            *_as_other_user(),
            binaries / "initdb",
            "--pgdata=" + str(directory / "data"),
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ],
        cwd=directory,
        check=True,
        capture_output=True,
    )


@contextmanager
def _serving(binaries: Path, directory: Path) -> Iterator[None]:
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(directory),
        "fsync": "off",
        "max_wal_size": "64MB",
        "min_wal_size": "32MB",
        "max_connections": "200",
    }
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    with subprocess.Popen(
        [*_as_other_user("--pdeathsig=QUIT"), binaries / "postgres", "-D", directory / "data", *options],
        cwd=directory,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if READY in line:
                break
        else:
            raise AssertionError(b"PostgreSQL did not start: " + b"".join(said))
        drain = Thread(target=process.stderr.read)  # a full pipe would stop the server
        drain.start()
        try:
            yield
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: nobody needs what is in it
            process.wait()
            drain.join()


def _as_other_user(*options: str) -> list[str]:
    if os.geteuid() != 0:
        return []
    ids = [f"--reuid={ROOT_BECOMES}", f"--regid={ROOT_BECOMES}", "--clear-groups"]
    return ["setpriv", *ids, *options, "--"]
