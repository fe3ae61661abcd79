"""Records to JSON and back: the one encoding in the database, over HTTP and in attempt directories. Used by
`store`, `server` and `engines`.

A thin layer over msgspec, which follows the type hints and is strict. It works on parsed JSON, because the
texts themselves are those of Python's own JSON: pure ASCII, with lone surrogates (of file names and output
that is not UTF-8), NaN and whole numbers of any size.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.json import Decoder
from msgspec.structs import fields

from tarmac.model.errors import InvalidInput

T = TypeVar("T")

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}

if TYPE_CHECKING:
    from dataclasses import replace  # msgspec's takes any changes; type checkers check those of this one
else:
    from msgspec.structs import replace


def encode(value: Any) -> Any:
    """The JSON form of a record, or of a plain value inside one: enums become their value."""
    record = _lean(value) if isinstance(value, StoredRecord) else value
    return to_builtins(record, str_keys=True, enc_hook=_plain)


def json_form(value: Any) -> Any:
    """The form of an answer in JSON: records whole, as dicts, and enums as their value."""
    return to_builtins(value)


def ready(kind: type[T]) -> type[T]:
    """The type, once msgspec has read its fields, as each use of a decoder needs.

    msgspec reads them at the first use, and crashes if two threads do so at once (0.22).
    """
    if kind not in _READY:
        with _READING:
            Decoder(kind)
        _READY.add(kind)
    return kind


_READING, _READY = Lock(), set[Any]()


def decode(kind: type[T], value: Any, path: str = "") -> T:
    """The record of type `kind` that `value` (parsed JSON) describes; raises InvalidInput."""
    try:
        return convert(value, ready(kind))
    except ValidationError as error:
        problem, _, inside = str(error).partition(" - at `$")
        inside = inside.removesuffix("`")
        text = (
            f"{path or kind.__name__}{inside}: {_in_words(problem, inside, value)}"  # quotes names as given
        )
        raise InvalidInput("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)) from None


def _lean(record: StoredRecord) -> StoredRecord:
    """The record with the default itself in place of every equal value: msgspec leaves out no others."""
    changes: dict[str, Any] = {}
    for name, default in _defaults(type(record)):
        value = getattr(record, name)
        if value is default:
            continue
        if value == default:
            changes[name] = default
        elif isinstance(value, StoredRecord):
            changes[name] = _lean(value)
        elif type(value) is tuple:
            changes[name] = tuple(_lean(part) if isinstance(part, StoredRecord) else part for part in value)
    return replace(record, **changes) if changes else record


@cache
def _defaults(kind: type[StoredRecord]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in fields(kind))


def _plain(value: Any) -> Any:
    """The dict of a mapping of another kind."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _in_words(problem: str, path: str, value: Any) -> str:
    """A message of msgspec in our words, with the wrong value if its path leads there."""
    if unknown := re.match(r"Object contains unknown field `(.+)`", problem):
        return f"unknown key {unknown[1]!r}"
    if missing := re.match(r"Object missing required field `(.+)`", problem):
        return f"{missing[1]!r} is missing"
    mismatch = re.match(r"Expected `(.+?)(?: \| null)?`, got `.+`", problem)
    if mismatch is None or "[...]" in path:  # msgspec names no key of a mapping
        return problem
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name or int(index)]
    expected = " or ".join(_WORDS.get(word, word) for word in mismatch[1].split(" | "))
    return f"{expected} is expected, not {type(value).__name__} {value!r:.60}"


class StoredRecord(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A record whose JSON has no default values, so that rows stay small, and that refuses unknown keys.

    Records that are answers of the API as well are plain Structs instead: they are encoded whole, and a
    client ignores the fields of a newer server.
    """


__all__ = ["StoredRecord", "replace"]


def inherited(base: type[Struct], record: Struct, *, but: str = "") -> dict[str, Any]:
    """The values of the fields that a record has from a base class, except `but`."""
    return {name: getattr(record, name) for name in base.__struct_fields__ if name != but}


def common(kind: type[Struct], record: object, *, but: Collection[str] = ()) -> dict[str, Any]:
    """The values that records of `kind` have in common with a record, by the names of their fields."""
    names = (name for name in kind.__struct_fields__ if name not in but)
    return {name: getattr(record, name) for name in names if hasattr(record, name)}
