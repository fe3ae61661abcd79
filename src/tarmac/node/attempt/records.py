"""Named tuples to JSON and back: writers and readers of attempt.json share one definition of its fields.

Called by `document`. Fields with default values are omitted; null equals an absent field. Alternative records
have a field `kind`, which is always written and distinguishes them.
"""

from __future__ import annotations

import collections.abc
from typing import Any, Callable, Iterable, Mapping, Union, get_args, get_origin, get_type_hints

_Read = Callable[[Any], Any]

_KIND = "kind"
_TEXTS = {str}
_WHATEVER = 1e300


class Malformed(ValueError):
    """The input is not such a record; the text names the position and the expected value."""


def to_json(record: Any) -> dict[str, Any]:
    """The fields of a record without those that have their default."""
    defaults = record._field_defaults
    return {
        name: _plain(value)
        for name, value in zip(record._fields, record)  # noqa: B905 - of the same record
        if name == _KIND or name not in defaults or value != defaults[name]
    }


def reader(kind: type) -> _Read:
    """A function that makes records of this kind from JSON; it checks all types and raises Malformed."""
    hints = get_type_hints(kind)
    defaults: Mapping[str, Any] = kind._field_defaults  # type: ignore[attr-defined]
    fields = [(name, name in defaults, _reader(hints[name])) for name in hints]

    def read(content: Any) -> Any:
        if not isinstance(content, dict):
            raise Malformed("an object is expected")
        found = {}
        for name, optional, of in fields:
            value = content.get(name)
            if value is None and optional:
                continue
            if name not in content:
                raise Malformed(f"{name!r} is missing")
            try:
                found[name] = of(value)
            except Malformed as problem:
                raise Malformed(f"{name}: {problem}") from None
        return kind(**found)

    return read


def _plain(value: Any) -> Any:
    """A value in the form that `json` can write: records are converted."""
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return to_json(value)
        if value and hasattr(value[0], "_fields"):
            return [to_json(each) for each in value]
    return value


def _reader(hint: Any) -> _Read:
    """A function that reads a value of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union:
        kinds = [each for each in arguments if each is not type(None)]
        if len(kinds) > 1:
            return _one_of(kinds)
        item = _reader(kinds[0])
        return lambda value: None if value is None else item(value)
    if origin is tuple:
        return _list_of(_reader(arguments[0]))
    if origin is collections.abc.Mapping:
        return _object_of(_reader(arguments[1]))
    if hasattr(hint, "_fields"):
        return reader(hint)
    return _PLAIN[hint]


def _one_of(kinds: list[Any]) -> _Read:
    readers = {each._field_defaults[_KIND]: reader(each) for each in kinds}

    def read(value: Any) -> Any:
        kind = value.get(_KIND) if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in readers:
            raise Malformed(f"an object of a kind is expected ({', '.join(readers)})")
        return readers[kind](value)

    return read


def _list_of(item: _Read) -> _Read:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise Malformed("a list is expected")
        return tuple(value) if item is _text and _are_texts(value) else tuple([item(each) for each in value])

    return read


def _object_of(item: _Read) -> _Read:
    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Malformed("an object is expected")
        if item is _text and _are_texts(value.values()):
            return value
        return {name: item(each) for name, each in value.items()}

    return read


def _are_texts(found: Iterable[Any]) -> bool:
    """A fast check for sequences of texts, the most frequent case."""
    return set(map(type, found)) <= _TEXTS


def _exactly(kind: type, expected: str) -> _Read:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise Malformed(f"{expected} is expected")
        return value

    return read


def _number(value: Any) -> Any:
    if type(value) not in (int, float) or not -_WHATEVER < value < _WHATEVER:
        raise Malformed("a number is expected")
    return float(value)


_text = _exactly(str, "a text")
_PLAIN: dict[Any, _Read] = {
    str: _text,
    int: _exactly(int, "a whole number"),
    float: _number,
    bool: _exactly(bool, "true or false"),
}
