"""Errors of the database as tarmac's own. Used by `database` around everything it does."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tarmac.model.errors import InvalidInput, Refused, StorageFull, TarmacError, Unavailable

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
