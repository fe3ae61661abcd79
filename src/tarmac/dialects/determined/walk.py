"""Walks a located tree along the table: JSON out, every misfit noted where it stands. Called by `reader`.

Null is the same as absent, as Determined has it. Nothing is filled in here: see `merging`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tarmac.dialects.determined.hyperparameters import read_hyperparameters
from tarmac.dialects.determined.scalars import plain, value_of
from tarmac.dialects.determined.schema import (
    Alternatives,
    Choice,
    Field,
    Flag,
    Free,
    Hyperparameters,
    ListOf,
    MapOf,
    Real,
    Record,
    Shape,
    Union,
    Whole,
    Word,
)
from tarmac.dialects.kinds import LARGEST_TEXT_BYTES
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.problems import Problems, nearest
from tarmac.dialects.section import Fields, Section, Value, where

MISSING: Any = object()
"""What could not be read, with the problem noted."""


@dataclass(slots=True)
class Walk:
    """One walk over one file; `warnings` gathers what is ignored."""

    warnings: list[str] = field(default_factory=list)

    def value(self, value: Value, shape: Shape) -> Any:
        """The JSON value, or MISSING with the problem noted."""
        match shape:
            case Record():
                return self.record(value, shape)
            case Union():
                return self._union(value, shape)
            case ListOf():
                return self._list(value, shape)
            case MapOf():
                return self._map(value, shape)
            case Alternatives():
                return self._alternative(value, shape)
            case Hyperparameters():
                return read_hyperparameters(value)
            case Free():
                return _free(value, shape)
            case _:
                return _scalar(value, shape)

    def record(self, value: Value, shape: Record, *, besides: frozenset[str] = frozenset()) -> Any:
        """A mapping with known fields; `besides` are known, and of no use here."""
        if not isinstance(value.node, Table):
            value.expected(f"a mapping with the fields {', '.join(sorted(shape.fields))}")
            return MISSING
        known = frozenset(shape.fields) | frozenset(shape.aliases) | besides
        section = Section(
            _without_nulls(value.node, known),
            Fields(known=known, synonyms=shape.synonyms),
            problems=value.problems,
            path=value.path,
        )
        found = dict(self._fields(section, shape))
        for name, rule in shape.fields.items():
            if rule.required is not None and name not in section:
                section.missing(name, rule.required)
        for check in shape.checks:
            check(section, found)
        return found

    def _fields(self, section: Section, shape: Record) -> Iterator[tuple[str, Any]]:
        for name, rule in shape.fields.items():
            given = section.get(name)
            for former, current in shape.aliases.items():
                if current == name and (old := section.get(former)) is not None:
                    if given is not None:
                        old.refuse(f"is the former name of '{name}', which is given too")
                    else:
                        given = old
            if given is not None and (found := self._field(given, rule)) is not MISSING:
                yield name, found

    def _field(self, given: Value, rule: Field) -> Any:
        if rule.refused is not None:
            given.refuse(rule.refused)
            return MISSING
        found = self.value(given, rule.shape)
        if rule.ignored is not None and found is not MISSING and not _says_nothing(found, rule):
            self.warn(given, rule.ignored)
        return found

    def warn(self, value: Value, text: str) -> None:
        """Note a warning with its place."""
        self.warnings.append(f"{where(value)}{text}")

    def _union(self, value: Value, shape: Union) -> Any:
        if not isinstance(value.node, Table):
            value.expected(f"a mapping with '{shape.key}'")
            return MISSING
        kind = next((item for key, item in value.node.entries if key.text == shape.key), None)
        words = ", ".join(shape.cases)
        if (kind is None or (isinstance(kind, Scalar) and kind.empty)) and shape.completes:
            return self.record(value, _any_case(shape), besides=frozenset({shape.key}))
        if kind is None or (isinstance(kind, Scalar) and kind.empty):
            value.refuse(f"'{shape.key}' is missing", f"one of {words}")
            return MISSING
        named = Value(kind, f"{value.path}.{shape.key}", value.problems)
        word = kind.text if isinstance(kind, Scalar) else ""
        if word in shape.removed:
            named.refuse(f"{word!r} {shape.removed[word]}", f"one of {words}")
            return MISSING
        if word not in shape.cases:
            meant = nearest(word, shape.cases) if word else None
            named.expected(f"one of {words}", f"did you mean '{meant}'?" if meant else None)
            return MISSING
        found = self.record(value, shape.cases[word], besides=frozenset({shape.key}))
        return found if found is MISSING else {shape.key: word, **found}

    def _list(self, value: Value, shape: ListOf) -> Any:
        if not isinstance(value.node, Items):
            value.expected(shape.wanted)
            return MISSING
        found = [self.value(item, shape.item) for item in value.items(shape.wanted)]
        if len(found) < shape.least:
            value.expected(shape.wanted)
            return MISSING
        return [item for item in found if item is not MISSING]

    def _map(self, value: Value, shape: MapOf) -> Any:
        if not isinstance(value.node, Table):
            value.expected(shape.wanted)
            return MISSING
        found = {}
        for key, item in value.entries(shape.wanted):
            read = self.value(item, shape.item)
            if read is not MISSING and isinstance(key.node, Scalar):
                found[key.node.text] = read
        return found

    def _alternative(self, value: Value, shape: Alternatives) -> Any:
        kinds = ((Scalar, shape.scalar), (Items, shape.items), (Table, shape.table))
        chosen = next((found for kind, found in kinds if isinstance(value.node, kind)), None)
        if chosen is None or (isinstance(value.node, Scalar) and value.node.empty):
            value.expected(shape.wanted)
            return MISSING
        return self.value(value, chosen)


def _any_case(shape: Union) -> Record:
    """All fields of all cases, none of them required."""
    rules = {name: rule for case in shape.cases.values() for name, rule in case.fields.items()}
    return Record(fields={name: replace(rule, required=None) for name, rule in rules.items()})


def _free(value: Value, shape: Free) -> Any:
    if shape.table and not isinstance(value.node, Table):
        value.expected("a mapping")
        return MISSING
    return plain(value.node)


def _says_nothing(found: Any, rule: Field) -> bool:
    """Whether a value is what holds without it, as in configurations that a program wrote out in full."""
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
    return Table(entries=entries, line=table.line, column=table.column)


def _scalar(value: Value, shape: Word | Whole | Real | Flag | Choice) -> Any:
    wanted = _wanted(shape)
    if isinstance(shape, Word) and shape.secret:
        return _secret(value, shape)
    if not isinstance(value.node, Scalar) or value.node.empty:
        value.expected(wanted)
        return MISSING
    text = value.node.text
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        value.refuse("the text contains a NUL, or half of a surrogate pair")
        return MISSING
    found = value_of(value.node)
    match shape:
        case Word():
            return _word(value, shape, found)
        case Choice():
            if text in shape.words:
                return text
            meant = nearest(text, shape.words)
            value.expected(wanted, f"did you mean '{meant}'?" if meant else None)
        case Flag():
            if isinstance(found, bool):
                return found
            value.expected(wanted, _unquote(found, bool, text))
        case Whole():
            if type(found) is int and shape.least <= found <= shape.most:
                return found
            value.expected(wanted, _unquote(found, int, text))
        case Real():
            if type(found) in (int, float) and _within(found, shape):
                return found
            value.expected(wanted, _unquote(found, float, text))
    return MISSING


def _word(value: Value, shape: Word, found: Any) -> Any:
    if not isinstance(found, str):
        value.expected(shape.wanted, "put it into quotes")
    elif len(found.encode()) > LARGEST_TEXT_BYTES:
        value.refuse(f"the text is longer than {LARGEST_TEXT_BYTES:,} bytes", "put it into a file")
    elif (shape.pattern is not None and not re.fullmatch(shape.pattern, found, re.ASCII | re.DOTALL)) or (
        shape.forbidden is not None and re.search(shape.forbidden, found, re.ASCII)
    ):
        value.expected(shape.wanted)
    else:
        return found
    return MISSING


def _secret(value: Value, shape: Word) -> Any:
    """A text that no message may show."""
    unseen = Problems(None)
    found = _scalar(Value(value.node, value.path, unseen), replace(shape, secret=False))
    if unseen:
        value.refuse(f"{shape.wanted} is expected", "what stands here is not shown: it may be a secret")
    return found


def _within(found: float, shape: Real) -> bool:
    return (
        (shape.least is None or found >= shape.least)
        and (shape.most is None or found <= shape.most)
        and (shape.above is None or found > shape.above)
        and abs(found) < 1e300
    )


def _unquote(found: Any, kind: type[Any], text: str) -> str | None:
    """A hint, where the value is of the kind but for its quotes."""
    if not isinstance(found, str):
        return None
    bare = value_of(Scalar(text=text))
    return "take the quotes away" if isinstance(bare, kind) or (kind is float and type(bare) is int) else None


def _wanted(shape: Word | Whole | Real | Flag | Choice) -> str:
    match shape:
        case Word():
            return shape.wanted
        case Choice():
            return f"one of {', '.join(shape.words)}"
        case Flag():
            return "true or false"
        case Whole():
            return _whole_wanted(shape)
        case Real():
            return _real_wanted(shape)


def _whole_wanted(shape: Whole) -> str:
    if shape.least == shape.most:
        return str(shape.least)
    if shape.most < 2**63 - 1:
        return f"a whole number from {shape.least} to {shape.most}"
    return f"a whole number, {shape.least} or more," if shape.least > -(2**63) else "a whole number"


def _real_wanted(shape: Real) -> str:
    if shape.above is not None:
        return f"a number above {shape.above:g}"
    if shape.least is not None and shape.most is not None:
        return f"a number from {shape.least:g} to {shape.most:g}"
    return f"a number, {shape.least:g} or more," if shape.least is not None else "a number"
