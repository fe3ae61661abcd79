"""`SqlAnnotations`: notes and changed labels of runs. Made by `SqlStore`, on its database.

Labels are in the spec of a run and in a table of their own for filtering lists: changes write both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from tarmac.model.annotation import Annotation, AnnotationKind, changed_labels
from tarmac.model.codec import decode, encode
from tarmac.model.record import replace
from tarmac.model.spec import RunSpec
from tarmac.store.checks import check_annotation, storable
from tarmac.store.database import Database
from tarmac.store.schema import annotation, run, run_label, run_spec

_OF_RUN = (
    select(annotation.c.at, annotation.c.actor, annotation.c.kind, annotation.c.body)
    .where(annotation.c.run_id == bindparam("of_run"))
    .order_by(annotation.c.id)
)
_EXISTS = select(run.c.id).where(run.c.id == bindparam("of_run"))
_SPEC = select(run_spec.c.body).where(run_spec.c.run_id == bindparam("of_run")).with_for_update()
_PUT_SPEC = update(run_spec).where(run_spec.c.run_id == bindparam("of_run"))
_DROP_LABELS = delete(run_label).where(run_label.c.run_id == bindparam("of_run"))


class SqlAnnotations:
    """Implements `model.annotation.Annotations` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, run_id: str) -> list[Annotation]:
        if not storable(run_id):
            return []
        with self._database.reading() as connection:
            found = connection.execute(_OF_RUN, {"of_run": run_id}).all()
        return [
            Annotation(at=at, actor=actor, kind=AnnotationKind(kind), text=json.loads(body))
            for at, actor, kind, body in found
        ]

    def add(self, run_id: str, annotation: Annotation) -> bool:
        check_annotation(annotation)
        if not storable(run_id):
            return False
        with self._database.writing() as connection:
            if connection.execute(_EXISTS, {"of_run": run_id}).first() is None:
                return False
            _insert(connection, run_id, annotation)
        return True

    def change_labels(self, run_id: str, changes: Mapping[str, str | None], annotation: Annotation) -> bool:
        check_annotation(annotation)
        if not storable(run_id):
            return False
        with self._database.writing() as connection:
            body = connection.execute(_SPEC, {"of_run": run_id}).scalar_one_or_none()
            if body is None:
                return False
            spec = decode(RunSpec, json.loads(body))
            labels = changed_labels(spec.labels, changes)
            written = json.dumps(encode(replace(spec, labels=labels)), separators=(",", ":"))
            connection.execute(_PUT_SPEC, {"of_run": run_id, "body": written})
            connection.execute(_DROP_LABELS, {"of_run": run_id})
            if labels:
                pairs = [{"run_id": run_id, "key": key, "value": value} for key, value in labels.items()]
                connection.execute(insert(run_label), pairs)
            _insert(connection, run_id, annotation)
        return True


def _insert(connection: Connection, run_id: str, added: Annotation) -> None:
    values = {"run_id": run_id, "at": added.at, "actor": added.actor, "kind": added.kind.value}
    connection.execute(insert(annotation), {**values, "body": json.dumps(added.text)})
