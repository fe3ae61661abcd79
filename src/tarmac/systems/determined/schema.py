"""The shapes in the table of the experiment configuration, and the reader of a tree along them.

A shape defines the allowed values: a `Kind` for a scalar, or one of the shapes here. A field adds the meaning
of given and missing values. `fields` writes the table with them, `merging` completes the result. Null is the
same as absent, as in Determined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tarmac.dialects.kinds import Kind, did_you_mean, flag, integer, matching, secret, yaml12
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.plain import to_plain
from tarmac.dialects.section import Fields, Section, Value
from tarmac.systems.determined.hyperparameters import read_hyperparameters, whole_or_other

Json = Any
"""A value as JSON has it."""

Check = Callable[[Section, Mapping[str, Json]], None]
"""Reports contradictions between the fields of one mapping, from its section and its valid values."""

MISSING: Any = object()
"""A value that could not be read, with the problem reported."""


@dataclass(frozen=True, slots=True)
class Free:
    """Any value; with `table`, any mapping."""

    table: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one shape; at least `least` of them."""

    item: Shape
    description: str
    least: int = 0


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


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """A mapping from names to hyperparameters, which may nest."""


class Merge(StrEnum):
    """How a value combines with the cluster's; without a `Merge`, the user's replaces it."""

    DEEP = "deep"  # field by field
    APPEND = "append"  # a list: the cluster's items come first
    PATHS = "paths"  # a list: items of the user replace those with the same container_path
    POLICIES = "policies"  # a list: the union, one item for each name


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its shape, its default (JSON), whether it is required, and its meaning here.

    `refused` is the reason why it cannot be given; `ignored` is the consequence of giving it. A `legacy`
    field is of older versions: a run gets it only if the file has it.
    """

    shape: Shape
    default: Json = None
    required: str | None = None
    refused: str | None = None
    ignored: str | None = None
    merge: Merge | None = None
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known fields; `aliases` are legacy names of fields. `sparse`: without defaults."""

    fields: Mapping[str, Field]
    sparse: bool = False
    checks: Sequence[Check] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Union:
    """A mapping that is one of several records, selected by its field `key`.

    `completes`: without `key`, it may hold a part of the cluster's value, with fields of any case; missing
    fields are reported after the merge.
    """

    key: str
    cases: Mapping[str, Record]
    completes: bool = False
    removed: Sequence[str] = ()


Shape = Kind[Any] | Free | ListOf | MapOf | Alternatives | Hyperparameters | Record | Union


def record(fields: Mapping[str, Field | Shape], *checks: Check, **more: Any) -> Record:
    """A record of fields; a field without further properties is given as its shape."""
    known = {name: rule if isinstance(rule, Field) else Field(rule) for name, rule in fields.items()}
    return Record(known, checks=checks, **more)


def read_value(value: Value, shape: Shape) -> Json:
    """The JSON value, or MISSING with the problem reported."""
    match shape:
        case Kind():
            return value.read(shape, MISSING)
        case Record():
            return read_record(value, shape)
        case Union():
            return _union(value, shape)
        case ListOf():
            return _list(value, shape)
        case MapOf():
            return _map(value, shape)
        case Alternatives():
            return _alternative(value, shape)
        case Hyperparameters():
            return read_hyperparameters(value)
    if shape.table and not isinstance(value.node, Table):
        value.expected("a mapping")
        return MISSING
    return to_plain(value.node, yaml12)


def read_record(value: Value, shape: Record, *, besides: frozenset[str] = frozenset()) -> Json:
    """A mapping with known fields; those in `besides` are accepted and dropped."""
    if not isinstance(value.node, Table):
        value.expected(f"a mapping with the fields {', '.join(sorted(shape.fields))}")
        return MISSING
    known = frozenset(shape.fields) | frozenset(shape.aliases) | besides
    section = Section(
        _without_nulls(value.node, known),
        replace(_words(shape, depth=1), known=known),
        problems=value.problems,
        path=value.path,
        above=value.above,
    )
    found = dict(_fields(section, shape))
    for name, rule in shape.fields.items():
        if rule.required is not None and name not in section:
            section.missing(name, rule.required)
    for check in shape.checks:
        check(section, found)
    return found


def _words(shape: Shape, *, depth: int) -> Fields:
    """The fields of a record, or of the cases of a union, and of `depth` nested levels."""
    if isinstance(shape, Union):
        cases = [_words(case, depth=depth) for case in shape.cases.values()]
        return Fields(known=frozenset[str]().union(*(case.known for case in cases)))
    if not isinstance(shape, Record):
        return Fields(known=frozenset())
    useful = {name: rule for name, rule in shape.fields.items() if not (rule.ignored or rule.refused)}
    within = {name: _words(rule.shape, depth=depth - 1) for name, rule in useful.items() if depth}
    return Fields(known=frozenset(useful), synonyms=shape.synonyms, within=within)


def _fields(section: Section, shape: Record) -> Iterator[tuple[str, Json]]:
    for name, rule in shape.fields.items():
        value = section.get(name)
        for legacy, current in shape.aliases.items():
            if current == name and (old := section.get(legacy)) is not None:
                if value is not None:
                    old.refuse(f"is the old name of '{name}', which is given too")
                else:
                    value = old
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


def _union(value: Value, shape: Union) -> Json:
    if not isinstance(value.node, Table):
        value.expected(f"a mapping with '{shape.key}'")
        return MISSING
    kind = value.node.values.get(shape.key)
    words = ", ".join(shape.cases)
    if kind is None or (isinstance(kind, Scalar) and kind.empty):
        if shape.completes:
            return read_record(value, _any_case(shape), besides=frozenset({shape.key}))
        value.refuse(f"'{shape.key}' is missing", f"one of {words}")
        return MISSING
    named = Value(kind, f"{value.path}.{shape.key}", value.problems)
    word = kind.text if isinstance(kind, Scalar) else ""
    if word in shape.removed:
        named.refuse(f"{word!r} has been removed and is not valid for new experiments", f"one of {words}")
        return MISSING
    if word not in shape.cases:
        named.expected(f"one of {words}", did_you_mean(word, shape.cases) if word else None)
        return MISSING
    case = _partial(shape.cases[word]) if shape.completes else shape.cases[word]
    found = read_record(value, case, besides=frozenset({shape.key}))
    return found if found is MISSING else {shape.key: word, **found}


def _list(value: Value, shape: ListOf) -> Json:
    found = [read_value(item, shape.item) for item in value.items(shape.description)]
    if not isinstance(value.node, Items):
        return MISSING
    if len(found) < shape.least:
        value.expected(shape.description)
        return MISSING
    return [item for item in found if item is not MISSING]


def _map(value: Value, shape: MapOf) -> Json:
    pairs = [(key, read_value(item, shape.item)) for key, item in value.entries(shape.description)]
    if not isinstance(value.node, Table):
        return MISSING
    return {
        key.node.text: found for key, found in pairs if found is not MISSING and isinstance(key.node, Scalar)
    }


def _alternative(value: Value, shape: Alternatives) -> Json:
    kinds = ((Scalar, shape.scalar), (Items, shape.items), (Table, shape.table))
    chosen = next((found for kind, found in kinds if isinstance(value.node, kind)), None)
    if chosen is None or (isinstance(value.node, Scalar) and value.node.empty):
        value.expected(shape.description)
        return MISSING
    return read_value(value, chosen)


def _any_case(shape: Union) -> Record:
    """All fields of all cases, none of them required."""
    rules = {name: rule for case in shape.cases.values() for name, rule in case.fields.items()}
    return _partial(Record(rules))


def _partial(shape: Record) -> Record:
    """The same record, with no field required."""
    return replace(shape, fields={name: replace(rule, required=None) for name, rule in shape.fields.items()})


def _says_nothing(found: Json, rule: Field) -> bool:
    """Whether a value equals its absence, as in configurations that a program wrote out in full."""
    if isinstance(found, Mapping):
        return all(_says_nothing(item, rule) for item in found.values())
    return found is None or found is False or found in ("", [], rule.default)


def _without_nulls(table: Table, known: frozenset[str]) -> Table:
    """The mapping without the known fields that are null: they count as not given."""
    entries = tuple(
        (key, item)
        for key, item in table.entries
        if not (key.text in known and isinstance(item, Scalar) and item.empty)
    )
    return replace(table, entries=entries)


# --- kinds of many fields


def whole(least: int | None = None, most: int | None = None) -> Kind[int]:
    """A whole number."""
    return integer(least, most, of=whole_or_other)


def word(description: str = "a text", pattern: str = r"(?s:.*)") -> Kind[str]:
    """A text that matches entirely."""
    return matching(pattern, description, of=yaml12)


COUNT, POSITIVE, FLAG, TEXT = whole(0), whole(1), flag(yaml12), word()
PORT = whole(1, 65535)
TABLE = Free(table=True)
SECRET = secret(TEXT)
DEAD = "has had no effect for a long time"
ABSOLUTE = word("an absolute path", r"(?s:/.*)")
NO, YES = Field(FLAG, False), Field(FLAG, True)
