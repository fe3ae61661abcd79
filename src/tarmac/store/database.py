"""A database as connections: many readers and one writer. For `sql` and `upgrade`; raises errors of ours.

Only one writer is active: within the process writers queue at a lock, between processes at the database
itself (SQLite: BEGIN IMMEDIATE; PostgreSQL: an advisory lock that ends with the transaction, after its
changes are visible). So event ids appear in order, and a transaction that has begun does not lose a race.

A run that has filled the disk must not keep the control plane from recording the stop of that run. Every
transaction first goes into SQLite's write-ahead log, which is written from its beginning again and again. So
the log gets its blocks while the disk has space (`Reserve`): on a full disk a transaction changes only blocks
that the log already has.
"""

import errno
import math
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, Connection, Engine, Executable, create_engine, make_url
from sqlalchemy import event as hooks
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tarmac.model.actor import Lease
from tarmac.model.errors import InvalidInput, LeaseLost, Refused, StorageFull, TarmacError, Unavailable
from tarmac.node.kernel import syscalls
from tarmac.store.checks import storable
from tarmac.store.prepared import driver_cursor
from tarmac.store.statements import LAST_CHARACTER, LEASE

FULL_BELOW_BYTES = 1 << 16
"""The free space below which an I/O error of SQLite means a full disk: it grows files by 32 KiB."""

_DISK_FULL = "53100"  # PostgreSQL's disk_full
_SQLITE_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SQLITE_IO = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


class Conflict(Refused):
    """The database refused a change because of its content: `control` should never see this."""

    code = "conflict"


class Stale(Exception):
    """A step or guard of a transaction is stale, so that all of it must be undone."""


@contextmanager
def translated(database: str, path: Path | None) -> Iterator[None]:
    """Raise the database's errors as TarmacErrors.

    `database` is its name in messages; `path` is its file, if it is on this machine.
    """
    try:
        yield
    except DBAPIError as error:
        raise _meaning(error, database, path) from error
    except PoolTimeoutError as error:
        raise Unavailable(f"the database {database} is busy", hint="try again") from error


def _meaning(error: DBAPIError, database: str, path: Path | None) -> TarmacError:
    cause = error.orig
    reason = " ".join(str(cause).split())
    if isinstance(error, IntegrityError):
        return Conflict(f"the database {database} refused a change: {reason}")
    if isinstance(error, DataError):
        return InvalidInput(f"the database {database} cannot hold a value: {reason}")
    if is_damage(cause):
        return TarmacError(f"the database {database} is damaged: {reason}", hint="bring back a copy of it")
    if _is_full(cause, path):
        return storage_full(database)
    return Unavailable(f"the database {database} cannot be used now: {reason}", hint="nothing was changed")


def storage_full(database: str) -> StorageFull:
    """The error about a full disk of a database."""
    return StorageFull(
        f"the disk of the database {database} is full: nothing was changed",
        hint="free some space and try again; what was accepted before is safe",
    )


def _is_full(cause: BaseException | None, path: Path | None) -> bool:
    code = _sqlite_code(cause)
    if code is None:
        return getattr(cause, "sqlstate", None) == _DISK_FULL
    if code == sqlite3.SQLITE_FULL:
        return True
    return (
        code in _SQLITE_IO
        and path is not None
        and free_bytes(path.parent, FULL_BELOW_BYTES) < FULL_BELOW_BYTES
    )


def is_damage(cause: BaseException | None) -> bool:
    """Whether an error of SQLite reports a damaged file."""
    return _sqlite_code(cause) in _SQLITE_DAMAGED


def _sqlite_code(cause: BaseException | None) -> int | None:
    """SQLite's primary code: the low byte of the extended one."""
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF if isinstance(cause, sqlite3.Error) else None


def free_bytes(directory: Path, otherwise: int) -> int:
    """The free space of a directory's disk; `otherwise` if the directory itself is gone: another problem."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return otherwise
    return found.f_bavail * found.f_frsize


PATIENCE_S = 10.0
"""The seconds that a writer waits for those of other processes before it reports Unavailable."""

READERS = 16
"""The most connections for reading; more readers wait for one."""

CHUNK = 500
"""The number of values in one IN, because databases limit the number of parameters."""

NO_VALUES: Mapping[str, Any] = MappingProxyType({})

_WRITER_LOCK = 0x7461726D6163  # "tarmac": the key of PostgreSQL's advisory lock

SQLITE_PRAGMAS = {
    "journal_mode": "WAL",  # readers and the writer do not wait for each other
    "synchronous": "FULL",  # a commit returns once it is on the disk, so it survives power loss
    "foreign_keys": "ON",
    "temp_store": "MEMORY",  # sorting needs no space on a full disk
}

_ENGINE: dict[str, Any] = {"max_overflow": 0, "hide_parameters": True}  # no values of rows in error messages

ROOM_BYTES = 16 << 20
"""About 4,000 pages, as many as one block of SQLite's index of the log holds; a stop takes some 20."""

DISK_SHARE = 4
LEAST_FREE_BYTES = 1 << 18
MAKE_AGAIN_S = 20.0


class Database:
    """Connections to one database, by URL: sqlite:///PATH or postgresql+psycopg://..."""

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        parsed = parse_url(url)
        self.name = parsed.difference_update_query(_PASSWORDS).render_as_string(hide_password=True)
        self.dialect = parsed.get_backend_name()
        self.path: Path | None = None
        """The file of a SQLite database."""
        self._reserve: Reserve | None = None
        self._lock = Lock()
        if self.dialect == "sqlite":
            path = Path(url.partition(":///")[2]).absolute()  # verbatim: a path may contain ? and %
            self.path, self.name = path, str(path)
            self._reserve = Reserve(path.with_name(f"{path.name}-wal"))
            self._reader, self._writer = _sqlite_engines(path, patience_s)
        else:
            self._reader, self._writer = _postgres_engines(parsed, patience_s)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for SELECTs, each of which sees everything committed before it began."""
        with translated(self.name, self.path), self._reader.connect() as connection:
            yield connection

    def rows(self, statement: Executable, values: Mapping[str, Any] = NO_VALUES) -> Sequence[Any]:
        """The rows of one SELECT; none if a text among `values` is one that no database can hold."""
        if not _storable(values):
            return ()
        with self.reading() as connection:
            return connection.execute(statement, values).all()

    def rows_of(self, statement: Executable, ids: Iterable[str], **values: Any) -> list[Any]:
        """The rows of one SELECT for many `ids`."""
        with self.reading() as connection:
            return list(each_of(connection, statement, ids, **values))

    def rows_by_reference(
        self, statements: Sequence[Executable], reference: str, *, user: str | None, limit: int
    ) -> Sequence[Any]:
        """The rows of the first of `statements.by_reference` that has any; none for an empty reference."""
        end = reference + LAST_CHARACTER
        values = {"reference": reference, "end": end, "user": user, "limit": limit}
        found = (self.rows(each, values) for each in statements) if reference else ()
        return next(filter(None, found), ())

    def write(self, statement: Executable, values: Mapping[str, Any]) -> int:
        """Execute one statement durably, and return the number of its rows; as `rows`, 0 for a bad text."""
        if not _storable(values):
            return 0
        with self.writing() as connection:
            return connection.execute(statement, values).rowcount

    @contextmanager
    def writing(self, lease: Lease | None = None) -> Iterator[Connection]:
        """A transaction with the right to write: durable on a normal exit, otherwise undone.

        Raises LeaseLost unless `lease` is still that of its cluster.
        """
        with self._lock:
            if self._reserve is not None:
                self._reserve.look()
            with translated(self.name, self.path), self._writer.begin() as connection:
                if lease is not None:
                    fence(connection, lease)
                yield connection

    @contextmanager
    def adding(self, lease: Lease | None = None) -> Iterator[Connection]:
        """A transaction that adds records which can wait. Raises StorageFull if only the reserve is left."""
        if self._reserve is not None and self._reserve.is_needed():
            raise storage_full(self.name)
        with self.writing(lease) as connection:
            yield connection

    def close(self) -> None:
        self._reader.dispose()
        self._writer.dispose()


def fence(connection: Connection, lease: Lease) -> None:
    """Raise LeaseLost unless the home of the lease serves its cluster under the same token."""
    known = LEASE.rows(connection, {"of_cluster": lease.cluster})
    if known != [(lease.home, lease.token)]:
        raise LeaseLost(f"the cluster {lease.cluster!r} was taken over by another server")


def each_of(
    connection: Connection, statement: Executable, ids: Iterable[str], **values: Any
) -> Iterator[Any]:
    """The rows of a query for many ids, each once, in parts: databases limit the number of parameters."""
    known = [value for value in dict.fromkeys(ids) if storable(value)]
    for start in range(0, len(known), CHUNK):
        yield from connection.execute(statement, {"ids": known[start : start + CHUNK], **values})


def plain_rows(
    connection: Connection, statement: Executable, values: Mapping[str, Any] = NO_VALUES
) -> Sequence[Any]:
    """The rows of a SELECT for many, as the driver's tuples: SQLAlchemy's take half as long again."""
    with closing(connection.execute(statement, values)) as found:
        return list(found.cursor.fetchall()) if found.cursor is not None else ()


def _storable(values: Mapping[str, Any]) -> bool:
    return all(storable(value) for value in values.values() if isinstance(value, str))


def parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # its text may quote a password, as the URL does
        raise InvalidInput("the URL of the database cannot be read", hint=_URL_FORMS) from None
    if "@" in (parsed.host or ""):
        raise InvalidInput("the URL of the database has an @ in its password", hint="write it as %40")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite") and parsed.database not in (None, "", ":memory:"):
        return parsed
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    raise InvalidInput(f"a database of this kind cannot be used: {parsed.drivername!r}", hint=_URL_FORMS)


_PASSWORDS = ("password", "sslpassword")
_URL_FORMS = "sqlite:////absolute/path.db or postgresql+psycopg://user:password@host/database"

# --- SQLite -----------------------------------------------------------------------------------------


def _sqlite_engines(path: Path, patience_s: float) -> tuple[Engine, Engine]:
    def connected(pragmas: Mapping[str, str]) -> sqlite3.Connection:
        """Connect without the driver's own transactions: they begin only at our statements."""
        connection = sqlite3.connect(path, timeout=patience_s, isolation_level=None, check_same_thread=False)
        try:
            for pragma, value in pragmas.items():
                connection.execute(f"PRAGMA {pragma} = {value}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    _create_private(path)
    url = URL.create("sqlite+pysqlite", database=str(path))
    reader = create_engine(
        url,
        creator=lambda: connected({**SQLITE_PRAGMAS, "query_only": "ON"}),
        pool_size=READERS,
        isolation_level="AUTOCOMMIT",
        **_ENGINE,
    )
    writer = create_engine(url, creator=lambda: connected(SQLITE_PRAGMAS), pool_size=1, **_ENGINE)
    hooks.listen(writer, "begin", _begin_writing)
    return reader, writer


def _begin_writing(connection: Connection) -> None:
    statement = "BEGIN IMMEDIATE"
    with driver_cursor(connection, statement) as cursor:
        cursor.execute(statement)


def _create_private(path: Path) -> None:
    """Create the file before SQLite does: readable by its owner alone, as are the files beside it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        kind = StorageFull if error.errno == errno.ENOSPC else Unavailable
        raise kind(f"the database {path} cannot be opened: {error.strerror}") from error


# --- PostgreSQL -------------------------------------------------------------------------------------


def _postgres_engines(url: URL, patience_s: float) -> tuple[Engine, Engine]:
    options = f"-c synchronous_commit=on -c lock_timeout={int(patience_s * 1000)}"
    arguments = {"options": options, "client_encoding": "utf8", "connect_timeout": math.ceil(patience_s)}
    try:
        reader = create_engine(
            url,
            pool_size=READERS,
            isolation_level="AUTOCOMMIT",
            pool_pre_ping=True,
            connect_args=arguments,
            **_ENGINE,
        )
        writer = create_engine(url, pool_size=1, pool_pre_ping=True, connect_args=arguments, **_ENGINE)
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"PostgreSQL needs the Python package {error.name!r}",
            hint=f"install psycopg[binary] for {sys.executable}",
        ) from error
    lock = f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})"
    hooks.listen(writer, "begin", lambda connection: connection.exec_driver_sql(lock))
    return reader, writer


class Reserve:
    """The blocks of the write-ahead log at `wal`. Not for several threads at once."""

    def __init__(self, wal: Path) -> None:
        self._wal = wal
        self._make_due = 0.0

    def is_needed(self) -> bool:
        """Whether the disk is full: the rest of the log is for the records of runs that end."""
        return free_bytes(self._wal.parent, LEAST_FREE_BYTES) < LEAST_FREE_BYTES

    def look(self) -> None:
        """Allocate the log's blocks, now and then, if the disk has several times as many."""
        if time.monotonic() < self._make_due:
            return
        room_bytes = min(ROOM_BYTES, free_bytes(self._wal.parent, LEAST_FREE_BYTES) // DISK_SHARE)
        if room_bytes < LEAST_FREE_BYTES:
            return
        with suppress(OSError):  # no log before the first transaction, or an unsupported disk
            handle = os.open(self._wal, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                syscalls.reserve(handle, room_bytes)
                self._make_due = time.monotonic() + MAKE_AGAIN_S
            finally:
                os.close(handle)
