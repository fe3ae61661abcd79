"""The parts of tables: types of columns, constraints and their names. Used by `schema`."""

from enum import StrEnum

from sqlalchemy import BigInteger, CheckConstraint, Integer, MetaData, Text

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


def one_of(column: str, words: type[StrEnum] | frozenset[Outcome]) -> CheckConstraint:
    """A constraint that `column` has one of `words` (or is NULL, if it may be)."""
    listed = ", ".join(f"'{word}'" for word in sorted(words))
    return CheckConstraint(f"{column} IN ({listed})", name=column)
