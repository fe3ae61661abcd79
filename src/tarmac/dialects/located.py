"""A parsed file as a small tree in which every value has its line and column, and the problems in it.

Each syntax (YAML, TOML) is parsed into this tree, and readers walk it through `dialects.section`. Scalars
keep their text as written: the field decides how the text is read, so that `0.10` stays `0.10` in a variable
and is a number in a resource. Every reader adds to one `Problems` and continues with a harmless value, so
that a user sees all problems at once; the caller that created it calls `raise_any` before using the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tarmac.model.errors import InvalidInput, Problem

SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A place in a text. Lines and columns count from 1 and are None if the value does not come from a text;
    `origin` then names its source, such as the change `--set PATH`.
    """

    line: int | None = None
    column: int | None = None
    origin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Placed):
    """One value without parts. `quoted`: a text in quotes or a block, not a bare word or number."""

    text: str
    quoted: bool = False

    @property
    def empty(self) -> bool:
        """Whether the value is missing (`key:` alone) or an explicit null."""
        return not self.quoted and self.text in _NULLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Placed):
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Placed):
    """A mapping, in the order of the text; its keys are distinct."""

    entries: tuple[tuple[Scalar, Node], ...]

    @property
    def values(self) -> dict[str, Node]:
        """The values by the texts of their keys."""
        return {key.text: value for key, value in self.entries}


Node = Scalar | Items | Table


def from_plain(value: Any, **place: Any) -> Node:
    """The tree of parsed JSON or TOML, all of it at one place: none for values without a text."""
    if isinstance(value, Mapping):
        entries = (
            (Scalar(text=str(key), quoted=True, **place), from_plain(item, **place))
            for key, item in value.items()
        )
        return Table(entries=tuple(entries), **place)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Items(items=tuple(from_plain(item, **place) for item in value), **place)
    if value is None:
        return Scalar(text="", **place)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Scalar(text=text, quoted=isinstance(value, str), **place)


def moved(node: Node, origin: str | None) -> Node:
    """The same value at this origin, or at no place."""
    place: dict[str, Any] = {"line": None, "column": None, "origin": origin}
    if isinstance(node, Items):
        return Items(items=tuple(moved(item, origin) for item in node.items), origin=origin)
    if isinstance(node, Table):
        entries = ((replace(key, **place), moved(item, origin)) for key, item in node.entries)
        return Table(entries=tuple(entries), origin=origin)
    return replace(node, **place)


def key_text(key: Scalar) -> str:
    """A key as it appears in the dotted path of a message."""
    return key.text if key.text.isprintable() and len(key.text) <= SHOWN_CHARACTERS else quote(key)


def on_line(node: Node) -> str:
    """The beginning of a warning about a value: its line or its origin."""
    if node.origin is not None:
        return f"{node.origin}: "
    return f"line {node.line}: " if node.line is not None else ""


def quote(node: Node) -> str:
    """A value as error messages quote it: short, on one line, without control characters."""
    if isinstance(node, Items):
        return "a list" if node.items else "an empty list"
    if isinstance(node, Table):
        return "a mapping" if node.entries else "an empty mapping"
    if node.empty:
        return "nothing"
    short = node.text if len(node.text) <= SHOWN_CHARACTERS else node.text[: SHOWN_CHARACTERS - 3] + "..."
    return repr(short)


_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


MOST_LISTED = 50
"""Maximum number of problems listed for a file; further ones are only counted."""


class Problems:
    """The problems in one input; `file` is its name, None for command-line flags.

    `warnings` are for the user as well, and refuse nothing.
    """

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.warnings: list[str] = []
        self._found: list[Problem] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def found(self) -> list[Problem]:
        """The problems so far, in the order of the text."""
        return sorted(self._found, key=lambda problem: (problem.line or 0, problem.column or 0))

    def add(self, at: Placed | None, message: str, hint: str | None = None) -> None:
        """Add one problem at the place of a value (None: the input as a whole)."""
        place = at or Placed()
        file = place.origin or self.file
        problem = Problem(message=message, file=file, line=place.line, column=place.column, hint=hint)
        self._found.append(problem)

    def warn(self, at: Node | None, text: str) -> None:
        """Add a warning, with the line of a value if it refers to one."""
        self.warnings.append(f"{on_line(at) if at is not None else ''}{text}")

    @property
    def listed(self) -> list[Problem]:
        """The problems in the order of the text; beyond `MOST_LISTED`, only their number."""
        listed, rest = self.found[:MOST_LISTED], self.found[MOST_LISTED:]
        more = Problem(message=f"and {len(rest)} more problems", file=self.file)
        return [*listed, more] if rest else listed

    @property
    def sorted_warnings(self) -> tuple[str, ...]:
        """The warnings in the order of the lines that they refer to, those about the whole text first."""

        def line(text: str) -> int:
            found = re.match(r"line ([0-9]+): ", text)
            return int(found[1]) if found is not None else 0

        return tuple(sorted(self.warnings, key=line))

    def raise_any(self) -> None:
        """Raise InvalidInput with all problems in the order of the text, if there are any."""
        if self._found:
            raise InvalidInput(self.listed)
