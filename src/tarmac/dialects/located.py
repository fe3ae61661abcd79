"""A parsed file as a small tree in which every value has its line and column.

Each syntax (YAML, TOML) is parsed into this tree, and readers walk it through `dialects.section`. Scalars
keep their text as written: the field decides how the text is read, so that `0.10` stays `0.10` in a variable
and is a number in a resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


def from_plain(value: Any) -> Node:
    """The tree of parsed JSON, for values without a text, such as overrides."""
    if isinstance(value, Mapping):
        return Table(entries=tuple((_scalar(str(key)), from_plain(item)) for key, item in value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Items(items=tuple(from_plain(item) for item in value))
    return _scalar(value)


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


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str):
        return Scalar(text=value, quoted=True)
    if value is None:
        return Scalar(text="")
    if isinstance(value, bool):
        return Scalar(text="true" if value else "false")
    return Scalar(text=str(value))
