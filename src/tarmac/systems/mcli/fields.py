"""How mappings of an MCLI run file are read: those of every public version, old names included.

A `Vocabulary` converts a mapping to current names: null counts as unset, `gpuNum` and `run_name` get their
current names. An unknown field causes a warning, as in MCLI, unless it is probably a typing error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.dialects.kinds import line
from tarmac.dialects.located import Node, Scalar, Table, quote
from tarmac.dialects.schema import MISSING, Custom, Record, fields_of, read_section
from tarmac.dialects.section import Fields, Section, Value
from tarmac.model.errors import nearest

WORD = line("a text")

WORKSPACE = "/workspace"
"""The working directory of the platform's images, and of the run if a file names it."""

_FREE = frozenset({"name", "command", "parameters", "metadata", "env_variables"})
"""Fields whose values may look like placeholders."""

_PLACEHOLDER = re.compile(r"<[^<>]*>|TODO.*|YOUR_.*|REPLACE_.*")
_SHOUTED = re.compile(r"[A-Z]++[ _-][A-Z _-]*+")


class KnownSection(Section):
    """A mapping in current words. `left_out` has keys without a usable value, each with the reason, and `old`
    the old words with their current ones.
    """

    def __init__(self, table: Table, shape: Record, value: Value) -> None:
        known = Fields(known=frozenset(shape.fields))
        super().__init__(table, known, problems=value.problems, path=value.path)
        self.left_out: dict[str, tuple[Scalar, str]] = {}
        self.old: dict[str, str] = {}

    def missing(self, name: str, hint: str) -> None:
        """Report a missing field; if it has an unusable value, report that at its place."""
        if name not in self.left_out:
            super().missing(name, hint)
            return
        key, reason = self.left_out[name]
        Value(key, self.path, self.problems).refuse(f"'{name}' is missing: {reason}", hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words of one mapping. `renamed`: old or other words for a known one; `old` ones cause a warning.

    `ignored`: known but without effect here, with the consequence; `refused`: with the reason.
    """

    shape: Record
    renamed: Mapping[str, str] = field(default_factory=dict)
    old: frozenset[str] = frozenset()
    ignored: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def known_as(self, key: str) -> str:
        """The current word for a key, in any of its spellings."""
        word = snake(key)
        return self.renamed.get(word, word)

    def part(self, description: str = "") -> Custom:
        """The record of a mapping in these words."""

        def read(value: Value) -> Any:
            section = self.section(value, description)
            return MISSING if section is None else read_section(section, self.shape)

        return Custom(read)

    def section(self, value: Value, description: str = "") -> KnownSection | None:
        """The mapping in current words; None, with a problem reported, if it is no mapping."""
        if not isinstance(value.node, Table):
            value.expected(description or f"a mapping with the fields {', '.join(sorted(self.shape.fields))}")
            return None
        entries: dict[str, tuple[Scalar, Node]] = {}
        suggested, old = set[str](), dict[str, str]()
        left_out: dict[str, tuple[Scalar, str]] = {}
        present = {self.known_as(key.text) for key, _ in value.node.entries}
        for key, item in value.node.entries:
            name = self.known_as(key.text)
            if isinstance(item, Scalar) and item.empty:
                left_out[name] = key, f"nothing follows {key.text!r}"
            elif name not in self.shape.fields:
                suggested |= self._unknown(value, key, present)
            elif name not in _FREE and (shown := _placeholder(item)) is not None:
                left_out[name] = key, f"{shown} is a placeholder"
                value.warn(f"{key.text!r} holds a placeholder, and is taken as not given", key)
            elif name in entries and key.text != name:
                value.warn(f"{key.text!r} is passed over: {name!r} says it as well", key)
            else:
                if key.text in self.old:
                    old[key.text] = name
                entries[name] = (Scalar(text=name, line=key.line, column=key.column), item)
        table = Table(entries=tuple(entries.values()), line=value.node.line, column=value.node.column)
        section = KnownSection(table, self.shape, value)
        section.suggestions |= suggested
        section.old |= old
        section.left_out |= {name: left for name, left in left_out.items() if name not in entries}
        return section

    def _unknown(self, value: Value, key: Scalar, present: set[str]) -> set[str]:
        """Warn of an unknown key or refuse it; return the field that was probably meant if it is refused.

        A key that is near a field of the same mapping is no typing error, but the user's own key.
        """
        word = self.known_as(key.text)
        if word in self.refused:
            at = Value(key, f"{value.path}.{key.text}" if value.path else key.text, value.problems)
            at.refuse(*self.refused[word])
        elif word in self.ignored:
            value.warn(f"{key.text!r} has no effect: {self.ignored[word]}", key)
        elif (near := self._intended(word, present)) is not None:
            note = Value(key, value.path, value.problems)
            note.refuse(f"unknown field {quote(key)}", f"did you mean '{near}'?")
            return {near}
        else:
            value.warn(f"unknown field {quote(key)} has no effect, as in MCLI", key)
        return set()

    def _intended(self, word: str, present: set[str]) -> str | None:
        if (meant := fields_of(self.shape).synonyms.get(word.lower())) is not None:
            return meant
        near = nearest(word, self.shape.fields)
        holds_anchors = word.startswith(("_", "x-"))
        return None if near in present or holds_anchors else near


def snake(key: str) -> str:
    """A key in lower case, with `_` between its words."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", key)


def _placeholder(node: Node) -> str | None:
    """A template's placeholder as messages quote it; None for any other value."""
    if isinstance(node, Table) and len(node.entries) == 1:
        key, item = node.entries[0]
        if isinstance(item, Scalar) and item.empty and _SHOUTED.fullmatch(key.text):
            return f"{{{key.text}}}"
    return quote(node) if isinstance(node, Scalar) and _PLACEHOLDER.fullmatch(node.text) else None


def read_words(value: Value, description: str) -> tuple[str, ...]:
    """A list of texts, or one alone."""
    if isinstance(value.node, Scalar):
        return value.read_list(line(description), description, or_one=True)
    return value.read_list(line("a text"), description)
