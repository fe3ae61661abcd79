"""The field engine: tables of fields, and one reader and one writer that walk a tree along them.

A shape defines the allowed values: a `Kind` for a scalar, or one of the shapes here. A row of a table, a
`Field`, names what it sets and the meaning of given and missing values. The known fields, the hints of the
nearest name and the text of a run file follow from the table. Used by the native reader and by other systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, reduce
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct, structs

from tarmac.dialects.kinds import Kind, plain, yaml12
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.plain import to_plain, yaml11
from tarmac.dialects.section import Fields, Section, Value

R = TypeVar("R", bound=Struct)

Json = Any
"""A value as JSON has it."""

Check = Callable[[Section, Mapping[str, Json]], None]
"""Reports contradictions between the fields of one mapping, from its section and its valid values."""

MISSING: Any = object()
"""A value that could not be read, with the problem reported."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one shape; at least `least` of them, or a single scalar (`or_one`) or mapping.

    `most` is the allowed number with the noun for messages. `twice`: items of one key are refused with this
    message. `make` is the type of the result.
    """

    item: Shape
    description: str
    least: int = 0
    or_one: bool = False
    or_mapping: bool = False
    most: tuple[int, str] | None = None
    twice: tuple[Callable[[Any], Any], str] | None = None
    make: Callable[[list[Any]], Any] = list


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping with any keys."""

    item: Shape
    description: str


@dataclass(frozen=True, slots=True)
class Alternatives:
    """One shape per kind of value: scalar, list, mapping. Other kinds are refused with `description`."""

    description: str
    scalar: Shape | None = None
    items: Shape | None = None
    table: Shape | None = None
    write: Callable[[Any], Json] = plain


@dataclass(frozen=True, slots=True)
class Custom:
    """A value that functions read and write: `read` returns MISSING for a value that it has reported.

    `within` are the fields of the mapping that it reads, for hints.
    """

    read: Callable[[Value], Any]
    write: Callable[[Any], Json] = plain
    within: Fields | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a table: the shape of a field, what it sets, and its meaning here.

    `sets` is the attribute of the record, dotted if it is one of a part ("": of the field's own name; None:
    the caller uses the value). `words` are those of other systems for it. If it is not given, an attribute
    keeps the default of its record, and JSON gets `default`.

    `required` is the hint if it is missing, `refused` the reason why it cannot be given, `ignored` the
    consequence of giving it. For a system whose clusters have values of their own, `merge` says how the two
    combine, and a run gets a `legacy` field, one of older versions, only if the file has it.
    """

    shape: Shape
    default: Json = None
    sets: str | None = ""
    words: str = ""
    required: str | None = None
    refused: str | None = None
    ignored: str | None = None
    merge: StrEnum | None = None
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known fields: JSON, or the record that `make` makes of its attributes.

    `synonyms` are words for fields in addition to those of their rows, `aliases` legacy names. `sparse`:
    without defaults. `nulls`: null is the same as absent. `excuse` judges unknown fields (see `Fields`).
    """

    fields: Mapping[str, Field]
    make: Callable[..., Any] | None = None
    sparse: bool = False
    nulls: bool = False
    checks: Sequence[Check] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    excuse: Callable[[Section, Scalar, Value], bool] = lambda _section, _key, _value: False


Shape = Kind[Any] | ListOf | MapOf | Alternatives | Custom | Record


def record(fields: Mapping[str, Field | Shape], *checks: Check, **more: Any) -> Record:
    """A record of fields; a field without further properties is given as its shape."""
    known = {name: rule if isinstance(rule, Field) else Field(rule) for name, rule in fields.items()}
    return Record(known, checks=checks, **more)


AS_IT_IS = Custom(lambda value: value)
"""Any value, for the caller to read."""

FREE = Custom(lambda value: to_plain(value.node, yaml12))
"""Any value, as JSON."""


def mapping(description: str, scalar: Callable[[Scalar], Any] = yaml11) -> Custom:
    """Any mapping, passed on unchanged; `scalar` reads its bare words."""

    def read(value: Value) -> Any:
        if not isinstance(value.node, Table):
            value.expected(description)
            return MISSING
        return to_plain(value.node, scalar)

    return Custom(read)


def tuple_of(item: Shape, description: str, **more: Any) -> ListOf:
    """A list of values of one shape, as a tuple."""
    return ListOf(item, description, make=tuple, **more)


def read_value(value: Value, shape: Shape) -> Json:
    """The JSON value, or MISSING with the problem reported."""
    match shape:
        case Kind():
            return value.read(shape, MISSING)
        case Record():
            section = section_of(value, shape)
            return MISSING if section is None else read_section(section, shape)
        case ListOf():
            return _list(value, shape)
        case MapOf():
            return _map(value, shape)
        case Alternatives():
            return _alternative(value, shape)
    return shape.read(value)


def read_section(section: Section, shape: Record) -> Any:
    """The record of a mapping; MISSING if a required field is. Reports everything wrong with the mapping."""
    found = read_fields(section, shape)
    if shape.make is None:
        return found
    if any(rule.required is not None and name not in found for name, rule in shape.fields.items()):
        return MISSING
    return shape.make(**attributes(found, shape))


def section_of(value: Value, shape: Record) -> Section | None:
    """The mapping with these fields; None, with a problem reported, if it is no mapping."""
    if not isinstance(value.node, Table):
        value.expected(f"a mapping with the fields {', '.join(sorted(shape.fields))}")
        return None
    known = frozenset(shape.fields) | frozenset(shape.aliases)
    entries = tuple(
        (key, item)
        for key, item in value.node.entries
        if not (shape.nulls and key.text in known and isinstance(item, Scalar) and item.empty)
    )
    table = replace(value.node, entries=entries)
    fields = replace(fields_of(shape), known=known, excuse=shape.excuse)
    return Section(table, fields, problems=value.problems, path=value.path, above=value.above)


def read_fields(section: Section, shape: Record) -> dict[str, Any]:
    """The given and valid values by the names of their fields; reports everything wrong with them."""
    found = dict(_fields(section, shape))
    for name, rule in shape.fields.items():
        if rule.required is not None and name not in section:
            section.missing(name, rule.required)
    for check in shape.checks:
        check(section, found)
    return found


def attributes(found: Mapping[str, Any], shape: Record) -> dict[str, Any]:
    """The values by the attributes that they set."""
    rows = ((shape.fields[name], name, value) for name, value in found.items() if name in shape.fields)
    return {rule.sets or name: value for rule, name, value in rows if rule.sets is not None}


def with_values(record: R, values: Mapping[str, Any]) -> R:
    """The record with these values of its attributes, dotted ones in its parts."""
    changes: dict[str, Any] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        part = changes[name] if name in changes else getattr(record, name)
        changes[name] = with_values(part, {rest: value}) if rest else value
    return structs.replace(record, **changes)


def write_value(found: Any, shape: Shape) -> Json:
    """The inverse of `read_value`: JSON for a run file."""
    match shape:
        case Kind() | Custom() | Alternatives():
            return shape.write(found)
        case Record():
            return write_record(found, shape)
        case ListOf():
            return [write_value(item, shape.item) for item in found]
    return plain(found)


def write_record(found: Any, shape: Record) -> dict[str, Json]:
    """The fields whose attributes differ from the defaults of the record."""
    written: dict[str, Json] = {}
    for name, rule in shape.fields.items():
        if rule.sets is None:
            continue
        path = (rule.sets or name).split(".")
        usual = reduce(getattr, path[1:], _defaults(found.__class__).get(path[0], MISSING))
        value = reduce(getattr, path, found)
        if value == usual:
            continue
        json = write_value(value, rule.shape)
        if json not in (None, [], {}):
            written[name] = json
    return written


@cache
def _defaults(kind: type[Struct]) -> Mapping[str, Any]:
    """The default of each attribute of a record that has one."""
    known = {each.name: each for each in structs.fields(kind)}
    return {
        name: each.default if each.default is not NODEFAULT else each.default_factory()
        for name, each in known.items()
        if not each.required
    }


def fields_of(shape: Shape, *, depth: int = 1) -> Fields:
    """The fields of a record, and of `depth` nested levels."""
    if isinstance(shape, Custom) and shape.within is not None:
        return shape.within
    if not isinstance(shape, Record):
        return Fields(known=frozenset())
    useful = {name: rule for name, rule in shape.fields.items() if not (rule.ignored or rule.refused)}
    within = {name: fields_of(rule.shape, depth=depth - 1) for name, rule in useful.items() if depth}
    words = {word: name for name, rule in useful.items() for word in rule.words.split()}
    return Fields(known=frozenset(useful), synonyms={**words, **shape.synonyms}, within=within)


def _fields(section: Section, shape: Record) -> Iterator[tuple[str, Any]]:
    for name, rule in shape.fields.items():
        value = section.get(name)
        for legacy, current in shape.aliases.items():
            if current == name and (old := section.get(legacy)) is not None:
                if value is not None:
                    old.refuse(f"is the old name of '{name}', which is given too")
                value = value or old
        if value is not None and (found := _field(value, rule)) is not MISSING:
            yield name, found


def _field(value: Value, rule: Field) -> Json:
    if rule.refused is not None:
        value.refuse(rule.refused)
        return MISSING
    found = read_value(value, rule.shape)
    if rule.ignored is not None and found is not MISSING and not _says_nothing(found, rule):
        value.warn(rule.ignored)
    return found


def _list(value: Value, shape: ListOf) -> Any:
    if (shape.or_one and isinstance(value.node, Scalar)) or (
        shape.or_mapping and isinstance(value.node, Table)
    ):
        one = read_value(value, shape.item)
        return MISSING if one is MISSING else shape.make([one])
    items = list(value.items(shape.description))
    if not isinstance(value.node, Items):
        return MISSING
    if len(items) < shape.least:
        value.expected(shape.description)
        return MISSING
    if shape.most is not None and len(items) > shape.most[0]:
        value.refuse(f"{len(items)} {shape.most[1]}; at most {shape.most[0]} are allowed")
    found: dict[Any, Any] = {}
    for item in items:
        if (one := read_value(item, shape.item)) is MISSING:
            continue
        key = shape.twice[0](one) if shape.twice is not None else len(found)
        if shape.twice is not None and key in found:
            item.refuse(shape.twice[1].format(key))
        else:
            found[key] = one
    return shape.make(list(found.values()))


def _map(value: Value, shape: MapOf) -> Json:
    pairs = [(key.node, read_value(item, shape.item)) for key, item in value.entries(shape.description)]
    found = {key.text: one for key, one in pairs if one is not MISSING and isinstance(key, Scalar)}
    return found if isinstance(value.node, Table) else MISSING


def _alternative(value: Value, shape: Alternatives) -> Json:
    kinds = ((Scalar, shape.scalar), (Items, shape.items), (Table, shape.table))
    chosen = next((found for kind, found in kinds if isinstance(value.node, kind)), None)
    if chosen is None or (isinstance(value.node, Scalar) and value.node.empty):
        value.expected(shape.description)
        return MISSING
    return read_value(value, chosen)


def _says_nothing(found: Json, rule: Field) -> bool:
    """Whether a value equals its absence, as in configurations that a program wrote out in full."""
    if isinstance(found, Mapping):
        return all(_says_nothing(item, rule) for item in found.values())
    return found is None or found is False or found in ("", [], rule.default)
