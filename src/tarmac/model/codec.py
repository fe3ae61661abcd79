"""Records to JSON and back: the one encoding in the database, over HTTP and in attempt directories. Used by
`store`, `server` and `engines`.

Dataclasses become objects without their default values (so that old readers meet few surprises and rows stay
small); enums become their value; tuples and frozensets become lists. Decoding follows the type hints and is
strict: it raises InvalidInput with the path for a wrong type, and for unknown keys.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from tarmac.model.errors import InvalidInput

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]

_PLAIN_WORDS: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


_PLAIN = frozenset({str, int, float, bool, type(None)})


def encode(value: Any) -> Any:
    """The JSON form of a record (or of a plain value inside one)."""
    if type(value) in _PLAIN:
        return value
    if type(value) is dict:
        return {str(key): item if type(item) in _PLAIN else encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return encode_fields(value, leave_out=())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(encode(item) for item in value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def json_form(value: Any) -> Any:
    """The form of an answer in JSON: records whole, as dicts, and enums as their value."""
    return msgspec.to_builtins(value)


def encode_fields(record: Any, *, leave_out: Collection[str]) -> dict[str, Any]:
    """The JSON form of a record without some fields, which are not encoded at all."""
    kind: type = type(record)
    return {
        name: encode(item)
        for name, default in _defaults(kind)
        if name not in leave_out and (item := getattr(record, name)) is not default and item != default
    }


def decode(kind: type[T], value: Any, path: str = "") -> T:
    """The record of type `kind` that `value` (parsed JSON) describes; raises InvalidInput."""
    hint: Any = kind
    result: T = _decoder(hint)(value, path or kind.__name__)
    return result


@cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a record with their defaults, made once: they are compared, never passed on."""
    return tuple((field.name, _default(field)) for field in fields(kind))


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    return MISSING


@cache
def _decoder(kind: Any) -> Decoder:
    """The decoder for a type hint, built once."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union(tuple(_decoder(part) for part in get_args(kind) if part is not type(None)))
    if origin is tuple:
        return _sequence(_decoder(get_args(kind)[0]), tuple)
    if origin is frozenset:
        return _sequence(_decoder(get_args(kind)[0]), frozenset)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_decoder(get_args(kind)[1]))
    if kind is Any:
        return lambda value, _path: value
    if is_dataclass(kind):
        return _record(kind)  # type: ignore[arg-type]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    return _plain(kind)


def _record(kind: type) -> Decoder:
    parts: dict[str, Decoder] | None = None
    required = frozenset(field.name for field in fields(kind) if _default(field) is MISSING)

    def decoder(value: Any, path: str) -> Any:
        nonlocal parts
        if parts is None:  # on first use, because records may refer to one another
            parts = {name: _decoder(hint) for name, hint in get_type_hints(kind).items()}
        if not isinstance(value, Mapping):
            raise _mismatch(path, "an object", value)
        if unknown := value.keys() - parts.keys():
            raise InvalidInput(f"{path}: unknown key {min(unknown)!r}")
        if missing := required - value.keys():
            raise InvalidInput(f"{path}: {min(missing)!r} is missing")
        return kind(**{key: parts[key](item, f"{path}.{key}") for key, item in value.items()})

    return decoder


def _union(choices: tuple[Decoder, ...]) -> Decoder:
    def decoder(value: Any, path: str) -> Any:
        if value is None:
            return None
        for choice in choices[:-1]:
            try:
                return choice(value, path)
            except InvalidInput:
                continue
        return choices[-1](value, path)

    return decoder


def _sequence(item: Decoder, make: Callable[[Any], Any]) -> Decoder:
    def decoder(value: Any, path: str) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _mismatch(path, "a list", value)
        return make(item(part, f"{path}[{index}]") for index, part in enumerate(value))

    return decoder


def _mapping(item: Decoder) -> Decoder:
    def decoder(value: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            raise _mismatch(path, "an object", value)
        return {str(key): item(part, f"{path}.{key}") for key, part in value.items()}

    return decoder


def _enum(kind: type[Enum]) -> Decoder:
    def decoder(value: Any, path: str) -> Any:
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(str(item.value) for item in kind)
            raise InvalidInput(f"{path}: {value!r} is not one of {allowed}") from None

    return decoder


def _plain(kind: type) -> Decoder:
    def decoder(value: Any, path: str) -> Any:
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _mismatch(path, _PLAIN_WORDS.get(kind, kind.__name__), value)
        return value

    return decoder


def _mismatch(path: str, expected: str, value: Any) -> InvalidInput:
    return InvalidInput(f"{path}: {expected} is expected, not {type(value).__name__} {value!r:.60}")
