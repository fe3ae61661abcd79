"""`SqlRunRecords`: records that the code of runs stores by name. Made by `SqlStore`, on its database.

`SqlMetrics` stores those that come with reports.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.store.checks import storable
from tarmac.store.database import Database
from tarmac.store.schema import run, run_record

_EXISTS = select(run.c.id).where(run.c.id == bindparam("of_run")).with_for_update()
_ALL = select(run_record).where(run_record.c.kind == bindparam("of_kind"))
_OF_RUN = _ALL.where(run_record.c.run_id == bindparam("of_run")).order_by(run_record.c.at, run_record.c.name)
_NAMED = _ALL.where(run_record.c.name == bindparam("of_name")).order_by(run_record.c.at, run_record.c.run_id)
_DROP = delete(run_record).where(
    run_record.c.run_id == bindparam("of_run"),
    run_record.c.kind == bindparam("of_kind"),
    run_record.c.name == bindparam("of_name"),
)


class SqlRunRecords:
    """Implements `model.run_records.RunRecords` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, record: RunRecord) -> bool:
        if not storable(record.run_id) or not storable(record.name):
            return False
        with self._database.writing() as connection:
            if connection.execute(_EXISTS, {"of_run": record.run_id}).first() is None:
                return False
            keep_record(connection, record)
        return True

    def of(self, run_id: str, kind: RunRecordKind) -> list[RunRecord]:
        return self._found(_OF_RUN, run_id, {"of_run": run_id, "of_kind": kind.value})

    def named(self, kind: RunRecordKind, name: str) -> list[RunRecord]:
        return self._found(_NAMED, name, {"of_name": name, "of_kind": kind.value})

    def _found(self, query: Any, text: str, values: dict[str, str]) -> list[RunRecord]:
        if not storable(text):
            return []
        with self._database.reading() as connection:
            rows = connection.execute(query, values).all()
        return [
            RunRecord(
                run_id=row.run_id,
                kind=RunRecordKind(row.kind),
                name=row.name,
                attempt=row.attempt,
                at=row.at,
                body=json.loads(row.body),
            )
            for row in rows
        ]


def keep_record(connection: Connection, record: RunRecord) -> None:
    """Store a record of an existing run, in the caller's transaction."""
    values = {
        "run_id": record.run_id,
        "kind": record.kind.value,
        "name": record.name,
        "attempt": record.attempt,
        "at": record.at,
        "body": json.dumps(dict(record.body)),
    }
    of = {"of_run": record.run_id, "of_kind": record.kind.value, "of_name": record.name}
    connection.execute(_DROP, of)
    connection.execute(insert(run_record), values)
