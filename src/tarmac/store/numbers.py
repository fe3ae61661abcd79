"""`SqlNumbers`: permanent numbers of things. Made by `SqlStore`, on its database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, func, insert, select, update

from tarmac.model.numbering import NumberKind
from tarmac.store.checks import storable
from tarmac.store.database import Database
from tarmac.store.schema import number
from tarmac.store.statements import CHUNK

LARGEST = 2**31 - 1

_FOUND = select(number.c.of_id, number.c.number).where(
    number.c.kind == bindparam("of_kind"), number.c.of_id.in_(bindparam("ids", expanding=True))
)
_LAST = select(func.max(number.c.number)).where(number.c.kind == bindparam("of_kind"))
_NUMBERED = select(number.c.of_id).where(
    number.c.kind == bindparam("of_kind"), number.c.number == bindparam("of_number")
)
_PASS_ON = (
    update(number)
    .where(number.c.kind == bindparam("of_kind"), number.c.of_id == bindparam("before"))
    .values(of_id=bindparam("after"))
)


class SqlNumbers:
    """Implements `model.numbering.Numbers` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def numbers(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        ids = [each for each in dict.fromkeys(ids) if storable(each)]
        with self._database.reading() as connection:
            known = _known(connection, kind, ids)
        if len(known) == len(ids):
            return known
        with self._database.writing() as connection:  # no other writer is active until it ends
            known = _known(connection, kind, ids)
            last = connection.execute(_LAST, {"of_kind": kind.value}).scalar_one_or_none() or 0
            new = {each: last + at for at, each in enumerate((i for i in ids if i not in known), 1)}
            if new:
                rows = [{"kind": kind.value, "number": value, "of_id": each} for each, value in new.items()]
                connection.execute(insert(number), rows)
        return known | new

    def known(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        with self._database.reading() as connection:
            return _known(connection, kind, [each for each in ids if storable(each)])

    def pass_on(self, kind: NumberKind, of: str, to: str) -> None:
        if not (storable(of) and storable(to)):
            return
        with self._database.writing() as connection:
            if not _known(connection, kind, [to]):
                connection.execute(_PASS_ON, {"of_kind": kind.value, "before": of, "after": to})

    def numbered(self, kind: NumberKind, number: int) -> str | None:
        if not 0 < number <= LARGEST:
            return None
        with self._database.reading() as connection:
            found = connection.execute(_NUMBERED, {"of_kind": kind.value, "of_number": number})
            of_id: str | None = found.scalar_one_or_none()
        return of_id


def _known(connection: Connection, kind: NumberKind, ids: Sequence[str]) -> dict[str, int]:
    known: dict[str, int] = {}
    for at in range(0, len(ids), CHUNK):
        chosen = {"of_kind": kind.value, "ids": ids[at : at + CHUNK]}
        known.update((row.of_id, row.number) for row in connection.execute(_FOUND, chosen))
    return known
