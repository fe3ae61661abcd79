"""`ScratchStore`: the store on SQLite in memory, with knobs. It survives the control planes built on it."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy import event as hooks
from sqlalchemy.pool import StaticPool

from tarmac.model.actor import Lease
from tarmac.store.database import Database, fence, storage_full, translated
from tarmac.store.schema import metadata
from tarmac.store.sql import SqlStore


class ScratchDatabase(Database):
    """A database in memory behind one connection: it is gone with this object."""

    def __init__(self) -> None:
        self.name = "in memory"
        self.dialect = "sqlite"
        self.path = None
        self.writes = 0
        self.disk_full = False
        self.reserve_only = False
        self.interrupt: Callable[[], None] = lambda: None
        self.failures_before: dict[int, BaseException] = {}
        self.failures_after: dict[int, BaseException] = {}
        self._turn = RLock()
        connection = _connected()
        _template().backup(connection)
        self._engine = _engine_on(connection)
        weakref.finalize(self, connection.close)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._turn, translated(self.name, None), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, lease: Lease | None = None) -> Iterator[Connection]:
        self.interrupt()
        with self._turn:
            self.writes += 1
            before, after = (
                failures.pop(self.writes, None) for failures in (self.failures_before, self.failures_after)
            )
            if before is not None:
                raise before
            if self.disk_full:
                raise storage_full(self.name)
            with translated(self.name, None), self._engine.begin() as connection:
                if lease is not None:
                    fence(connection, lease)
                yield connection
        if after is not None:
            raise after
        self.interrupt()

    @contextmanager
    def adding(self, lease: Lease | None = None) -> Iterator[Connection]:
        if self.reserve_only:
            raise storage_full(self.name)
        with self.writing(lease) as connection:
            yield connection

    def close(self) -> None:
        """Does nothing: the content stays."""


class ScratchStore(SqlStore):
    """The store on a `ScratchDatabase`, with its knobs."""

    def __init__(self) -> None:
        self.database = ScratchDatabase()
        super().__init__(self.database)

    @property
    def writes(self) -> int:
        """The number of write transactions begun so far."""
        return self.database.writes

    def fill_disk(self, full: bool = True) -> None:
        """Refuse every write from now on, or (False) none."""
        self.database.disk_full = full

    def leave_only_the_reserve(self, only: bool = True) -> None:
        """Refuse writes that can wait, as when the disk is full but for the reserve; or (False) none."""
        self.database.reserve_only = only

    @property
    def interrupt(self) -> Callable[[], None]:
        """Called before and after each write: a test may crash there."""
        return self.database.interrupt

    @interrupt.setter
    def interrupt(self, interrupt: Callable[[], None]) -> None:
        self.database.interrupt = interrupt

    def fail_before(self, write: int, error: BaseException) -> None:
        """Raise `error` instead of doing the write of this number (the first one is 1)."""
        self.database.failures_before[write] = error

    def fail_after(self, write: int, error: BaseException) -> None:
        """Do the write of this number, durably, and then raise `error` to its caller."""
        self.database.failures_after[write] = error


def _connected() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _engine_on(connection: sqlite3.Connection) -> Engine:
    """An engine on this connection; all of them share their compiled statements."""
    shared = _shared_engine()
    engine = Engine(
        StaticPool(lambda: connection),
        shared.dialect,
        shared.url,
        execution_options={"compiled_cache": _COMPILED},
    )
    hooks.listen(engine, "begin", lambda begun: begun.exec_driver_sql("BEGIN"))
    return engine


_COMPILED: dict[Any, Any] = {}


@cache
def _shared_engine() -> Engine:
    """An engine whose dialect has met SQLite."""
    connection = _connected()
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    engine.connect().close()
    return engine


@cache
def _template() -> sqlite3.Connection:
    """A database with our tables, to copy."""
    connection = _connected()
    with _engine_on(connection).begin() as begun:
        metadata.create_all(begun, checkfirst=False)
    return connection
