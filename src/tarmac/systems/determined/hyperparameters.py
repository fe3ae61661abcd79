"""Reads hyperparameters: ranges, categories, constants, nested ones. Called by `fields`.

A mapping with a `type` is a hyperparameter of that type; one without is a mapping of further ones; anything
else is a constant.
"""

from collections.abc import Mapping
from typing import Any

from tarmac.dialects import schema
from tarmac.dialects.kinds import Kind, did_you_mean, number, yaml12
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.schema import FREE, Custom, Field, ListOf, Record, Shape, read_value
from tarmac.dialects.section import Section, Value, words_for
from tarmac.systems.determined.schema import record, whole

RANGES = frozenset({"int", "double", "log"})

_SYNONYMS = words_for(minval="min", maxval="max", val="value", vals="values options")
_TYPE_SYNONYMS = words_for(double="float", int="integer", const="constant", categorical="choice")


def read_hyperparameters(value: Value) -> dict[str, Any]:
    """The hyperparameters as JSON, in the form that the user chose."""
    return {
        name.node.text: _hyperparameter(item)
        for name, item in value.entries("a mapping from names to hyperparameters")
        if isinstance(name.node, Scalar)
    }


def _hyperparameter(value: Value) -> Any:
    node = value.node
    if not isinstance(node, Table):
        return to_plain(node, yaml12)  # a list is a constant as a whole, whatever it contains
    kind = node.values.get("type")
    if kind is None:
        return read_hyperparameters(value)
    word = kind.text if isinstance(kind, Scalar) else ""
    if word in _KINDS:
        return read_value(value, _KINDS[word])
    hint = did_you_mean(word, _KINDS, _TYPE_SYNONYMS) if word else None
    named = Value(kind, f"{value.path}.type", value.problems)
    named.expected(f"one of {', '.join(_KINDS)}", hint or "a nested hyperparameter cannot be called 'type'")
    return None


def _ordered(section: Section, found: Mapping[str, Any]) -> None:
    low, high = found.get("minval"), found.get("maxval")
    if low is not None and high is not None and low >= high:
        section.refuse(
            f"minval ({low}) must be less than maxval ({high})",
            "a value that does not change is 'type: const' with 'val'",
        )


def _range(kind: str, bound: Kind[Any], **more: Field) -> Record:
    required = Field(bound, required=f"a hyperparameter of type {kind} has minval, maxval")
    fields: dict[str, Field | Shape] = {
        "type": FREE,
        "minval": required,
        "maxval": required,
        **more,
        "count": whole(1),
    }
    return record(fields, _ordered, synonyms=_SYNONYMS)


def _given(name: str, shape: Shape, required: str) -> Record:
    """A hyperparameter with one field, which may be null."""
    fields: dict[str, Field | Shape] = {"type": FREE, name: Field(shape, required=required)}
    return schema.record(fields, synonyms=_SYNONYMS)


_NUMBER = number(of=yaml12, as_written=True)
_BASE = Field(number(above=0, of=yaml12, as_written=True), required="a hyperparameter of type log has base")
_KINDS: Mapping[str, Record] = {
    "const": _given("val", FREE, "a constant has a value"),
    "int": _range("int", whole()),
    "double": _range("double", _NUMBER),
    "log": _range("log", _NUMBER, base=_BASE),
    "categorical": _given(
        "vals", ListOf(FREE, "a list of at least one value", least=1), "the values to choose from"
    ),
}
"""The fields of each type."""

HYPERPARAMETERS = Custom(read_hyperparameters)
