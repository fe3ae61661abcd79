"""The kinds of many fields of the experiment configuration, and how its values combine with the cluster's.

Shared by the tables of Determined's fields. Null is the same as absent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from tarmac.dialects import schema
from tarmac.dialects.kinds import Kind, did_you_mean, flag, integer, matching, secret, yaml12
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.schema import MISSING, Custom, Field, Record, fields_of, mapping, read_value
from tarmac.dialects.section import Fields, Value


class Merge(StrEnum):
    """How a value combines with the cluster's; without a `Merge`, the user's replaces it."""

    DEEP = "deep"  # field by field
    APPEND = "append"  # a list: the cluster's items come first
    PATHS = "paths"  # a list: items of the user replace those with the same container_path
    POLICIES = "policies"  # a list: the union, one item for each name


record = partial(schema.record, nulls=True)


def whole_or_other(scalar: Scalar) -> str | int | float | bool | None:
    """The value of a bare word; a number without a fraction is an integer in any notation (`1e3`, `5.0`)."""
    found = yaml12(scalar)
    return int(found) if isinstance(found, float) and found.is_integer() else found


def whole(least: int | None = None, most: int | None = None) -> Kind[int]:
    """A whole number."""
    return integer(least, most, of=whole_or_other)


def word(description: str = "a text", pattern: str = r"(?s:.*)") -> Kind[str]:
    """A text that matches entirely."""
    return matching(pattern, description, of=yaml12)


COUNT, POSITIVE, FLAG, TEXT = whole(0), whole(1), flag(yaml12), word()
PORT = whole(1, 65535)
TABLE = mapping("a mapping", yaml12)
SECRET = secret(TEXT)
DEAD = "has had no effect for a long time"
ABSOLUTE = word("an absolute path", r"(?s:/.*)")
NO, YES = Field(FLAG, False), Field(FLAG, True)


def partial_record(shape: Record) -> Record:
    """The same record, with no field required."""
    return replace(shape, fields={name: replace(rule, required=None) for name, rule in shape.fields.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Custom):
    """A mapping that is one of several records, selected by its field `key`."""

    key: str
    cases: Mapping[str, Record]


def union(
    key: str, cases: Mapping[str, Record], *, completes: bool = False, removed: Sequence[str] = ()
) -> Union:
    """One of these records.

    `completes`: without `key`, it may hold a part of the cluster's value, with fields of any case; missing
    fields are reported after the merge.
    """
    shapes = {
        word: replace(case, fields={key: Field(schema.FREE), **case.fields}) for word, case in cases.items()
    }
    if completes:
        shapes = {word: partial_record(case) for word, case in shapes.items()}
    rules = {name: rule for case in shapes.values() for name, rule in case.fields.items()}
    any_case, words = record(rules), ", ".join(cases)

    def read(value: Value) -> Any:
        if not isinstance(value.node, Table):
            value.expected(f"a mapping with '{key}'")
            return MISSING
        kind = value.node.values.get(key)
        if kind is None or (isinstance(kind, Scalar) and kind.empty):
            if completes:
                return read_value(value, any_case)
            value.refuse(f"'{key}' is missing", f"one of {words}")
            return MISSING
        named = Value(kind, f"{value.path}.{key}", value.problems)
        word = kind.text if isinstance(kind, Scalar) else ""
        if word in cases:
            return read_value(value, shapes[word])
        if word in removed:
            named.refuse(f"{word!r} has been removed and is not valid for new experiments", f"one of {words}")
        else:
            named.expected(f"one of {words}", did_you_mean(word, cases) if word else None)
        return MISSING

    known = frozenset[str]().union(*(fields_of(case).known for case in cases.values()))
    return Union(read=read, within=Fields(known=known), key=key, cases=cases)
