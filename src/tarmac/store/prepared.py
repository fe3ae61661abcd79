"""`Prepared`: a statement that SQLAlchemy compiles once, and the driver's own cursor executes.

For what every run writes and reads (`sql`, `spans`, the lease), because SQLAlchemy's execution of one row
takes several times as long as the database. All other statements are executed as usual.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import ClauseElement

_Row = Mapping[str, Any]
_Compiled = tuple[str, Callable[[_Row], Any]]


class Prepared:
    """An INSERT or UPDATE of several columns, or a SELECT, whose values are as the driver takes them.

    Thread-safe.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement
        self._compiled: dict[tuple[str, tuple[str, ...]], _Compiled] = {}

    def execute(self, connection: Connection, rows: Sequence[_Row]) -> int:
        """Execute it for these rows, and return the number of rows that it changed.

        All have the same keys, in the same order. Raises DBAPIError as SQLAlchemy does.
        """
        text, values = self._for(connection, tuple(rows[0]))
        with driver_cursor(connection, text) as cursor:
            cursor.executemany(text, [values(row) for row in rows])
            return int(cursor.rowcount)

    def rows(self, connection: Connection, values: _Row) -> Sequence[Any]:
        """The rows that it selects, as tuples. Raises DBAPIError as SQLAlchemy does."""
        text, in_order = self._for(connection, tuple(values))
        with driver_cursor(connection, text) as cursor:
            return list(cursor.execute(text, in_order(values)).fetchall())

    def _for(self, connection: Connection, columns: tuple[str, ...]) -> _Compiled:
        key = connection.dialect.name, columns
        if key not in self._compiled:
            compiled: Any = self.statement.compile(dialect=connection.dialect, column_keys=list(columns))
            own = {name: value for name, value in compiled.params.items() if name not in columns}
            in_order = _in_order(compiled.positiontup)
            self._compiled[key] = str(compiled), partial(_values, own, in_order) if own else in_order
        return self._compiled[key]


@contextmanager
def driver_cursor(connection: Connection, text: str) -> Iterator[Any]:
    """The driver's cursor for a statement. Raises DBAPIError as SQLAlchemy does."""
    cursor = connection.connection.cursor()
    driver: Any = connection.dialect.dbapi
    try:
        yield cursor
    except driver.Error as error:
        raise DBAPIError.instance(text, None, error, driver.Error, hide_parameters=True) from error
    finally:
        cursor.close()


def _in_order(names: Sequence[str] | None) -> Callable[[_Row], Any]:
    """The values as the driver takes them: by name without `names`, otherwise in their order."""
    if names is None:
        return dict
    return itemgetter(*names) if len(names) > 1 else lambda row: [row[name] for name in names]


def _values(own: _Row, in_order: Callable[[_Row], Any], row: _Row) -> Any:
    """The values of a row and of the statement itself."""
    return in_order({**own, **row})
