"""The parts of tables: types of columns, constraints and their names. Used by `schema`."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, MetaData, Table, Text

from tarmac.model.progress import Outcome

Bytewise = Text().with_variant(Text(collation="C"), "postgresql")
"""Text compared byte by byte on every database: ids sort by time, and prefixes are ranges."""

Serial = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only in a column that is declared INTEGER PRIMARY KEY."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def by_key(name: str, key: str) -> Table:
    """A table of records as JSON, each under a key."""
    return Table(
        name, metadata, Column(key, Bytewise, primary_key=True), Column("body", Text, nullable=False)
    )


def required(kind: Any, *names: str) -> Iterator[Column[Any]]:
    """Columns of one type that are never NULL."""
    return (Column(name, kind, nullable=False) for name in names)


def one_of(column: str, words: type[StrEnum] | frozenset[Outcome]) -> CheckConstraint:
    """A constraint that `column` has one of `words` (or is NULL, if it may be)."""
    listed = ", ".join(f"'{word}'" for word in sorted(words))
    return CheckConstraint(f"{column} IN ({listed})", name=column)
