"""Walks a located tree: returns typed values, and reports located problems on the way.

Used by all readers, which never stop at a problem. A wrong value is reported and replaced by the default, so
that the rest of the file is checked as well; `Problems.raise_any` keeps the result from being used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tarmac.dialects.kinds import Kind, Misfit
from tarmac.dialects.located import Items, Node, Problems, Scalar, Table, key_text, quote
from tarmac.model.errors import nearest

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The allowed keys of one mapping.

    `synonyms`: words of other systems, with the word to use here. `within`: the fields of mappings inside
    these fields. `excuse(section, key, value)` is asked about each unknown key before it is refused: it is
    True for one that a dialect treats in a way of its own.
    """

    known: frozenset[str]
    synonyms: Mapping[str, str] = field(default_factory=dict)
    within: Mapping[str, Fields] = field(default_factory=dict)
    excuse: Callable[[Section, Scalar, Value], bool] = lambda _section, _key, _value: False

    def near(self, word: str, value: Node | None = None) -> str | None:
        """The field that an unknown one was probably meant to be, from here or one level below."""
        return self.named(word, value) or nearest(word, self.known)

    def named(self, word: str, value: Node | None = None) -> str | None:
        """The field from here or one level below with this name, or with this word in another system."""
        if (found := nearest(word, self.known, self.synonyms, cutoff=1.0)) is not None:
            return found
        plain = isinstance(value, Scalar) and _PLAIN.fullmatch(value.text)
        shown = plain[0] if plain else "..."
        below = ((name, fields.named(word)) for name, fields in self.within.items())
        return next((f"{name}: {{{found}: {shown}}}" for name, found in below if found), None)


_PLAIN = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
"""A value that a hint may repeat: it cannot contain a login of a URL."""


def words_for(**fields: str) -> dict[str, str]:
    """Synonyms: for each field the words of other systems, separated by blanks."""
    return {word: use for use, words in fields.items() for word in words.split()}


Above = tuple[Fields, ...]
"""The fields of the mappings around a value, the innermost first."""


@dataclass(frozen=True, slots=True)
class Value:
    """A node with its dotted path for messages."""

    node: Node
    path: str
    problems: Problems
    above: Above = ()

    def read(self, kind: Kind[T], default: D) -> T | D:
        """The scalar as a value of the kind; the default, with a problem reported, if it is not one."""
        hint: str | None = None
        if isinstance(self.node, Scalar) and not self.node.empty:
            if not _passable(self.node.text):
                self.refuse("the text contains a NUL, or half of a surrogate pair")
                return default
            try:
                return kind.read(self.node)
            except Misfit as misfit:
                hint = misfit.hint
        if kind.secret:
            self.refuse(f"{kind.description} is expected", "the value is not shown: it may be a secret")
        else:
            self.expected(kind.description, hint)
        return default

    def items(self, description: str) -> Iterator[Value]:
        """The members of a list; none, with a problem reported, if it is no list."""
        if not isinstance(self.node, Items):
            self.expected(description)
            return
        for index, item in enumerate(self.node.items):
            yield Value(item, f"{self.path}[{index}]", self.problems, self.above)

    def read_list(self, kind: Kind[T], description: str, *, or_one: bool = False) -> tuple[T, ...]:
        """The valid members of a list, all others reported; with `or_one`, also a single value."""
        values = [self] if or_one and isinstance(self.node, Scalar) else self.items(description)
        read = [value.read(kind, None) for value in values]
        return tuple(found for found in read if found is not None)

    def entries(self, description: str) -> Iterator[tuple[Value, Value]]:
        """Keys and values of a mapping with any keys; none, with a problem reported, if it is no mapping."""
        if not isinstance(self.node, Table):
            self.expected(description)
            return
        for key, value in self.node.entries:
            yield (
                Value(key, self.path, self.problems),
                Value(value, f"{self.path}.{key_text(key)}", self.problems, self.above),
            )

    def expected(self, description: str, hint: str | None = None) -> None:
        """Report that another value is expected here."""
        if isinstance(self.node, Scalar) and self.node.empty:
            self.refuse(f"there is no value; {description} is expected", hint)
        else:
            self.refuse(f"{description} is expected, not {quote(self.node)}", hint)

    def warn(self, text: str, at: Node | None = None) -> None:
        """Add a warning about this value, with the line of `at` if that is another part of it."""
        path = f"{self.path}: " if self.path else ""
        self.problems.warn(at or self.node, f"{path}{text}")

    def refuse(self, message: str, hint: str | None = None) -> None:
        """Report a problem with this value."""
        self.problems.add(self.node, f"{self.path}: {message}" if self.path else message, hint)


class Section:
    """A mapping with known fields; its constructor reports unknown ones.

    `suggestions` are the fields that unknown ones were probably meant to be.
    """

    def __init__(
        self, node: Table, fields: Fields, *, problems: Problems, path: str = "", above: Above = ()
    ) -> None:
        self.node = node
        self.fields = fields
        self.path = path
        self.problems = problems
        self.suggestions: set[str] = set()
        names = (f"{path}.{key_text(key)}" if path else key_text(key) for key, _ in node.entries)
        found = [
            (key, Value(value, name, problems, (fields, *above)))
            for (key, value), name in zip(node.entries, names, strict=True)
        ]
        self._values = {key.text: value for key, value in found if key.text in fields.known}
        for key, value in found:
            if key.text not in fields.known and not fields.excuse(self, key, value):
                self._unknown(key, value.node, above)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Value:
        """The value of a given field."""
        return self._values[name]

    def __setitem__(self, name: str, value: Value) -> None:
        """Take a value from elsewhere in the file for a field."""
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        """Ignore a field, with a problem reported: it does not count as missing."""
        del self._values[name]
        self.suggestions.add(name)

    def get(self, name: str) -> Value | None:
        """The value of a field, None if it is not given."""
        return self._values.get(name)

    def exclude(self, name: str, *others: str, reason: str) -> None:
        """Report each of the others that is given beside `name`."""
        if name in self._values:
            for other in others:
                if other in self._values:
                    self._values[other].refuse(f"cannot stand beside '{name}'", reason)

    def missing(self, name: str, hint: str) -> None:
        """Report a missing field, unless an unknown field probably is a misspelling of it."""
        if name not in self.suggestions:
            self.refuse(f"'{name}' is missing", hint)

    def refuse(self, message: str, hint: str | None = None) -> None:
        """Report a problem with the mapping as a whole."""
        self.problems.add(self.node, f"{self.path}: {message}" if self.path else message, hint)

    def _unknown(self, key: Scalar, value: Node, above: Above) -> None:
        near = self.fields.near(key.text, value)
        hint = f"did you mean '{near}'?" if near else f"known here: {', '.join(sorted(self.fields.known))}"
        outside = next((name for each in above if (name := each.named(key.text, value))), "")
        own = self.path.rpartition(".")[2]
        if not near and outside and not outside.startswith(f"{own}: "):
            hint += f"; outside of {self.path} there is '{outside}'"
        self.suggestions |= {near} if near else set()
        self.problems.add(key, f"{self.path + ': ' if self.path else ''}unknown field {quote(key)}", hint)


def _passable(text: str) -> bool:
    """Whether a text is valid as an argument, a variable, a file name and JSON."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
