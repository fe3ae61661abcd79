"""Reads hyperparameters: ranges, categories, constants, nested ones. Called by `schema`.

A mapping with a `type` is a hyperparameter of that type; one without is a mapping of further ones; anything
else is a constant.
"""

import math
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.kinds import did_you_mean, yaml12
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.systems.determined.identity import fraction_of

_BOUNDS = frozenset({"type", "minval", "maxval", "count"})
KINDS: Mapping[str, frozenset[str]] = {
    "const": frozenset({"type", "val"}),
    "int": _BOUNDS,
    "double": _BOUNDS,
    "log": _BOUNDS | {"base"},
    "categorical": frozenset({"type", "vals"}),
}
"""The fields of each type."""

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
    named = Value(kind, f"{value.path}.type", value.problems)
    if word not in KINDS:
        hint = did_you_mean(word, KINDS, _TYPE_SYNONYMS) if word else None
        hint = hint or "a nested hyperparameter cannot be called 'type'"
        named.expected(f"one of {', '.join(KINDS)}", hint)
        return None
    section = Section(
        node, Fields(known=KINDS[word], synonyms=_SYNONYMS), problems=value.problems, path=value.path
    )
    found = {"type": word}
    if word in RANGES:
        return found | _range(section, word)
    name = "val" if word == "const" else "vals"
    values = section.get(name)
    if values is None:
        section.missing(name, "a constant has a value" if word == "const" else "the values to choose from")
    elif word == "categorical" and not (isinstance(values.node, Items) and values.node.items):
        values.expected("a list of at least one value")
    else:
        return found | {name: to_plain(values.node, yaml12)}
    return found


def _range(section: Section, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("minval", "maxval", *(("base",) if kind == "log" else ())):
        value = section.get(name)
        if value is None:
            section.missing(
                name, f"a hyperparameter of type {kind} has {'minval, maxval' if name != 'base' else name}"
            )
        elif (number := _number(value, whole=kind == "int")) is not None:
            found[name] = number
    if "base" in found and found["base"] <= 0:
        section.get("base").expected("a number above 0")  # type: ignore[union-attr]
    if "minval" in found and "maxval" in found and found["minval"] >= found["maxval"]:
        section.refuse(
            f"minval ({found['minval']}) must be less than maxval ({found['maxval']})",
            "a value that does not change is 'type: const' with 'val'",
        )
    if (count := section.get("count")) is not None and not (
        isinstance(count.node, Scalar) and count.node.empty
    ):
        number = _number(count, whole=True)
        if number is not None and number < 1:
            count.expected("a whole number, 1 or more,")
        elif number is not None:
            found["count"] = number
    return found


def whole_or_other(scalar: Scalar) -> str | int | float | bool | None:
    """The value of a bare word; a number without a fraction is an integer in any notation (`1e3`, `5.0`)."""
    found = yaml12(scalar)
    return int(found) if isinstance(found, float) and found.is_integer() else found


def _number(value: Value, *, whole: bool) -> Any:
    read = whole_or_other if whole else yaml12
    found = read(value.node) if isinstance(value.node, Scalar) else None
    if type(found) is int or (type(found) is float and not whole):
        return found
    value.expected("a whole number" if whole else "a number")
    return None


def draw_values(parameters: Mapping[str, Any], seed: int, prefix: str = "") -> dict[str, Any]:
    """The value of each hyperparameter, with the nesting kept."""
    return {
        name: _value(value, seed, f"{prefix}{name}")
        if isinstance(value, Mapping) and "type" in value
        else draw_values(value, seed, f"{prefix}{name}.")
        for name, value in parameters.items()
    }


def _value(parameter: Mapping[str, Any], seed: int, path: str) -> Any:
    fraction = fraction_of(str(seed), path)
    match parameter["type"]:
        case "const":
            return parameter.get("val")
        case "categorical":
            values = parameter["vals"]
            return values[int(fraction * len(values))]
        case "int":
            return parameter["minval"] + int(fraction * (parameter["maxval"] - parameter["minval"] + 1))
    try:
        value = parameter["minval"] + fraction * (parameter["maxval"] - parameter["minval"])
        value = parameter["base"] ** value if parameter["type"] == "log" else value
    except OverflowError:
        return parameter["minval"]
    return value if math.isfinite(value) else parameter["minval"]
