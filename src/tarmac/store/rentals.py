"""`SqlRentals`: providers, shapes and rentals, as JSON. Made by `SqlStore`, on its database."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Select, bindparam, delete, select, update

from tarmac.model.actor import Lease
from tarmac.model.burst.provider import ProviderRecord
from tarmac.model.burst.rentals import Rental, RentalState, RentalStep
from tarmac.model.burst.shapes import Shape, Stock
from tarmac.store.checks import check_rental, check_texts
from tarmac.store.database import Database
from tarmac.store.rows import read_record, written
from tarmac.store.schema import provider, rental, shape, stock
from tarmac.store.statements import insert_or_skip, put

T = TypeVar("T")

_RENTALS = select(rental.c.body)
_OPEN = rental.c.state.in_([state.value for state in RentalState if state is not RentalState.ENDED])
OPEN = _RENTALS.where(_OPEN)
SINCE = _RENTALS.where(rental.c.requested_at >= bindparam("since")).order_by(
    rental.c.requested_at, rental.c.id
)
OF_RUNS = _RENTALS.where(rental.c.run_id.in_(bindparam("ids", expanding=True)))
_UPDATE = update(rental).where(rental.c.id == bindparam("guard_id"), rental.c.seq == bindparam("guard_seq"))
_OF_PROVIDER = delete(shape).where(shape.c.provider == bindparam("guard_provider"))
_DROP_SHAPE = delete(shape).where(shape.c.id == bindparam("guard_id"))
_DROP_PROVIDER = delete(provider).where(provider.c.name == bindparam("guard_provider"))


class SqlRentals:
    """Implements `model.burst.rentals.Rentals` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._put_provider, self._put_shape, self._put_stock = (
            put(table, database.dialect) for table in (provider, shape, stock)
        )
        self._insert = insert_or_skip(rental, database.dialect)

    def providers(self) -> list[ProviderRecord]:
        return self._read(ProviderRecord, select(provider.c.body).order_by(provider.c.name))

    def put_provider(self, record: ProviderRecord) -> None:
        check_texts({"the name of the provider": record.name})
        self._database.write(self._put_provider, {"name": record.name, "body": written(record)})

    def remove_provider(self, name: str) -> bool:
        with self._database.writing() as connection:
            found = _decoded(Rental, connection.execute(OPEN))
            if any(each.shape is not None and each.shape.provider == name for each in found):
                return False
            connection.execute(_OF_PROVIDER, {"guard_provider": name})
            connection.execute(_DROP_PROVIDER, {"guard_provider": name})
        return True

    def shapes(self) -> list[Shape]:
        return self._read(Shape, select(shape.c.body).order_by(shape.c.id))

    def put_shapes(self, shapes: Sequence[Shape], *, replacing: str | None = None) -> None:
        for each in shapes:
            check_texts({"the provider of the shape": each.provider})
        rows = [{"id": each.id, "provider": each.provider, "body": written(each)} for each in shapes]
        with self._database.writing() as connection:
            if replacing is not None:
                connection.execute(_OF_PROVIDER, {"guard_provider": replacing})
            if rows:
                connection.execute(self._put_shape, rows)

    def remove_shape(self, shape_id: str) -> bool:
        return self._database.write(_DROP_SHAPE, {"guard_id": shape_id}) == 1

    def stock(self) -> list[Stock]:
        return self._read(Stock, select(stock.c.body).order_by(stock.c.shape))

    def put_stock(self, stock: Stock) -> None:
        self._database.write(self._put_stock, {"shape": stock.shape, "body": written(stock)})

    def apply(self, steps: Sequence[RentalStep], *, lease: Lease | None = None) -> list[bool]:
        for step in steps:
            check_rental(step)
        taken = []
        with self._database.writing(lease) as connection:
            for step in steps:
                before, row = step.before, _row(step.after)
                guard = {} if before is None else {"guard_id": before.id, "guard_seq": before.seq}
                done = connection.execute(self._insert if before is None else _UPDATE, {**guard, **row})
                taken.append(done.rowcount == 1)
        return taken

    def open_rentals(self) -> list[Rental]:
        return sorted(self._read(Rental, OPEN), key=lambda each: each.id)

    def rentals(self, *, run_ids: Sequence[str] | None = None, since: float = 0.0) -> list[Rental]:
        if run_ids is not None:
            of_runs = _decoded(Rental, self._database.rows_of(OF_RUNS, run_ids))
            found = [each for each in of_runs if each.open or each.requested_at >= since]
        else:
            recent = _decoded(Rental, self._database.rows(SINCE, {"since": since}))
            found = list({each.id: each for each in (*self.open_rentals(), *recent)}.values())
        return sorted(found, key=lambda each: (each.requested_at, each.id))

    def _read(self, kind: type[T], statement: Select[Any]) -> list[T]:
        return list(_decoded(kind, self._database.rows(statement)))


def _decoded(kind: type[T], rows: Iterable[Any]) -> Iterable[T]:
    return (read_record(kind, body) for (body,) in rows)


def _row(after: Rental) -> dict[str, Any]:
    same = {name: getattr(after, name) for name in ("id", "run_id", "number", "seq", "requested_at")}
    return {**same, "state": after.state.value, "body": written(after)}
