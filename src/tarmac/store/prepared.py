"""`Prepared`: a statement that SQLAlchemy compiles once, and the driver's own cursor executes for many rows.

For the writes that every run makes (`sql`, `spans`), because SQLAlchemy's execution of one row takes several
times as long as the database. All other statements are executed as usual.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import UpdateBase

_Row = Mapping[str, Any]
_Compiled = tuple[str, Callable[[_Row], Any]]


class Prepared:
    """An INSERT or UPDATE of several columns, without a result. Thread-safe."""

    def __init__(self, statement: UpdateBase) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, tuple[str, ...]], _Compiled] = {}

    def execute(self, connection: Connection, rows: Sequence[_Row]) -> int:
        """Execute it for these rows, and return the number of rows that it changed.

        All have the same keys, in the same order, and values as the driver takes them. Raises DBAPIError as
        SQLAlchemy does.
        """
        text, values = self._for(connection, tuple(rows[0]))
        cursor = connection.connection.cursor()
        driver: Any = connection.dialect.dbapi
        try:
            cursor.executemany(text, [values(row) for row in rows])
            return cursor.rowcount
        except driver.Error as error:
            raise DBAPIError.instance(text, None, error, driver.Error, hide_parameters=True) from error
        finally:
            cursor.close()

    def _for(self, connection: Connection, columns: tuple[str, ...]) -> _Compiled:
        key = connection.dialect.name, columns
        if key not in self._compiled:
            compiled = self._statement.compile(dialect=connection.dialect, column_keys=list(columns))
            own = {name: value for name, value in compiled.params.items() if name not in columns}
            order = compiled.positiontup  # None: the driver takes values by name
            in_order = itemgetter(*order) if order is not None else dict
            self._compiled[key] = str(compiled), partial(_values, own, in_order) if own else in_order
        return self._compiled[key]


def _values(own: _Row, in_order: Callable[[_Row], Any], row: _Row) -> Any:
    """The values of a row and of the statement itself."""
    return in_order({**own, **row})
