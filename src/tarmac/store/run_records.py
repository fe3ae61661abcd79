"""Additions to runs, each with a table of its own. Made by `SqlStore`, on its database.

`SqlRunRecords`: records that the code of runs stores by name; `SqlMetrics` stores those that come with
reports. `SqlAnnotations`: notes and changed labels. Labels are in the spec of a run and in a table of their
own for filtering lists: changes write both.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from tarmac.model import run_records as model
from tarmac.model.codec import replace
from tarmac.model.spec import RunSpec
from tarmac.store.checks import check_annotation, storable
from tarmac.store.database import Database
from tarmac.store.rows import of_labels, read_record, written
from tarmac.store.schema import annotation, run, run_label, run_record, run_spec

_EXISTS = select(run.c.id).where(run.c.id == bindparam("of_run")).with_for_update()
_ALL = select(run_record).where(run_record.c.kind == bindparam("of_kind"))
_OF_RUN = _ALL.where(run_record.c.run_id == bindparam("of_run")).order_by(run_record.c.at, run_record.c.name)
_NAMED = _ALL.where(run_record.c.name == bindparam("of_name")).order_by(run_record.c.at, run_record.c.run_id)
_DROP = delete(run_record).where(
    run_record.c.run_id == bindparam("of_run"),
    run_record.c.kind == bindparam("of_kind"),
    run_record.c.name == bindparam("of_name"),
)
_ANNOTATIONS = (
    select(annotation.c.at, annotation.c.actor, annotation.c.kind, annotation.c.body)
    .where(annotation.c.run_id == bindparam("of_run"))
    .order_by(annotation.c.id)
)
_SPEC = select(run_spec.c.body).where(run_spec.c.run_id == bindparam("of_run")).with_for_update()
_PUT_SPEC = update(run_spec).where(run_spec.c.run_id == bindparam("of_run"))
_DROP_LABELS = delete(run_label).where(run_label.c.run_id == bindparam("of_run"))


class SqlRunRecords:
    """Implements `model.run_records.RunRecords` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, record: model.RunRecord) -> bool:
        if not storable(record.run_id) or not storable(record.name):
            return False
        with self._database.writing() as connection:
            if connection.execute(_EXISTS, {"of_run": record.run_id}).first() is None:
                return False
            keep_record(connection, record)
        return True

    def of(self, run_id: str, kind: model.RunRecordKind) -> list[model.RunRecord]:
        return self._found(_OF_RUN, {"of_run": run_id, "of_kind": kind.value})

    def named(self, kind: model.RunRecordKind, name: str) -> list[model.RunRecord]:
        return self._found(_NAMED, {"of_name": name, "of_kind": kind.value})

    def _found(self, query: Any, values: dict[str, str]) -> list[model.RunRecord]:
        return [
            model.RunRecord(
                **{**row._mapping, "kind": model.RunRecordKind(row.kind), "body": json.loads(row.body)}
            )
            for row in self._database.rows(query, values)
        ]


def keep_record(connection: Connection, record: model.RunRecord) -> None:
    """Store a record of an existing run, in the caller's transaction."""
    kind, body = record.kind.value, json.dumps(dict(record.body))
    values = {"run_id": record.run_id, "kind": kind, "name": record.name}
    connection.execute(_DROP, {"of_run": record.run_id, "of_kind": kind, "of_name": record.name})
    connection.execute(
        insert(run_record), {**values, "attempt": record.attempt, "at": record.at, "body": body}
    )


class SqlAnnotations:
    """Implements `model.annotation.Annotations` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, run_id: str) -> list[model.Annotation]:
        return [
            model.Annotation(at=at, actor=actor, kind=model.AnnotationKind(kind), text=json.loads(body))
            for at, actor, kind, body in self._database.rows(_ANNOTATIONS, {"of_run": run_id})
        ]

    def add(self, run_id: str, annotation: model.Annotation) -> bool:
        check_annotation(annotation)
        if not storable(run_id):
            return False
        with self._database.writing() as connection:
            if connection.execute(_EXISTS, {"of_run": run_id}).first() is None:
                return False
            _insert(connection, run_id, annotation)
        return True

    def change_labels(self, changed: Mapping[str, model.LabelChange]) -> frozenset[str]:
        for _, added in changed.values():
            check_annotation(added)
        with self._database.writing() as connection:
            return frozenset(
                run_id
                for run_id in sorted(changed)
                if storable(run_id) and _label(connection, run_id, *changed[run_id])
            )


def _label(
    connection: Connection, run_id: str, changes: Mapping[str, str | None], added: model.Annotation
) -> bool:
    """Change labels of a run; False if there is no such run."""
    body = connection.execute(_SPEC, {"of_run": run_id}).scalar_one_or_none()
    if body is None:
        return False
    spec = read_record(RunSpec, body)
    labels = model.changed_labels(spec.labels, changes)
    connection.execute(_PUT_SPEC, {"of_run": run_id, "body": written(replace(spec, labels=labels))})
    connection.execute(_DROP_LABELS, {"of_run": run_id})
    if labels:
        connection.execute(insert(run_label), of_labels(run_id, labels))
    _insert(connection, run_id, added)
    return True


def _insert(connection: Connection, run_id: str, added: model.Annotation) -> None:
    values = {"run_id": run_id, "at": added.at, "actor": added.actor, "kind": added.kind.value}
    connection.execute(insert(annotation), {**values, "body": json.dumps(added.text)})
