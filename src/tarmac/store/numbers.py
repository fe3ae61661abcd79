"""`SqlNumbers`: permanent numbers of things. Made by `SqlStore`, on its database."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, func, insert, select, update

from tarmac.model.run_records import NumberKind
from tarmac.store.checks import storable
from tarmac.store.database import Database, each_of
from tarmac.store.schema import number

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
        ids = [of_id for of_id in dict.fromkeys(ids) if storable(of_id)]
        known = self.known(kind, ids)
        if len(known) == len(ids):
            return known
        with self._database.writing() as connection:  # no other writer is active until it ends
            known = _known(connection, kind, ids)
            last = connection.execute(_LAST, {"of_kind": kind.value}).scalar_one_or_none() or 0
            new = {of_id: last + at for at, of_id in enumerate((i for i in ids if i not in known), 1)}
            if new:
                rows = [{"kind": kind.value, "number": value, "of_id": of_id} for of_id, value in new.items()]
                connection.execute(insert(number), rows)
        return known | new

    def known(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        with self._database.reading() as connection:
            return _known(connection, kind, ids)

    def pass_on(self, kind: NumberKind, of: str, to: str) -> None:
        if not (storable(of) and storable(to)):
            return
        with self._database.writing() as connection:
            if not _known(connection, kind, [to]):
                connection.execute(_PASS_ON, {"of_kind": kind.value, "before": of, "after": to})

    def numbered(self, kind: NumberKind, number: int) -> str | None:
        if not 0 < number <= LARGEST:
            return None
        found = self._database.rows(_NUMBERED, {"of_kind": kind.value, "of_number": number})
        return found[0].of_id if found else None


def _known(connection: Connection, kind: NumberKind, ids: Sequence[str]) -> dict[str, int]:
    return {row.of_id: row.number for row in each_of(connection, _FOUND, ids, of_kind=kind.value)}
