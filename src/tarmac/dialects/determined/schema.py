"""What the table of the experiment configuration is written in. Walked by `walk`, completed by `merging`.

A shape says what a value may be; a field adds what it means when it is given or left out. `sections`,
`searchers` and `storage` write the table with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tarmac.dialects.section import Section

Json = Any
"""A value as JSON has it."""

Check = Callable[[Section, Mapping[str, Json]], None]
"""Notes what is wrong between the fields of one mapping, given it and the values that could be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A text; where `pattern` is given the whole of it must match. A `secret` one is never quoted back."""

    wanted: str = "a text"
    pattern: str | None = None
    forbidden: str | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number within bounds."""

    least: int = -(2**63)
    most: int = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """A number within bounds; `above` is left out itself."""

    least: float | None = None
    most: float | None = None
    above: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """`true` or `false`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Anything; with `table`, any mapping."""

    table: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list of values of one shape; at least `least` of them."""

    item: Shape
    wanted: str
    least: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """A mapping whose keys the user chooses."""

    item: Shape
    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """One shape per kind of value: scalar, list, mapping. What has none is refused with `wanted`."""

    wanted: str
    scalar: Shape | None = None
    items: Shape | None = None
    table: Shape | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """A mapping from names to hyperparameters, which may nest."""


class Merge(StrEnum):
    """What becomes of a value where the cluster has one too; without a word, the user's wins."""

    DEEP = "deep"  # field by field
    APPEND = "append"  # a list: the cluster's come first
    PATHS = "paths"  # a list: what the user names by container_path wins, the rest is added
    POLICIES = "policies"  # a list: united, one of each name


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: its shape, its default (JSON), whether the user must give it, what giving it means here.

    `refused` says why it cannot be given; `ignored` what is lost when it is. A `former` one is of older
    versions: a run is handed it only where the file has it.
    """

    shape: Shape
    default: Json = None
    required: str | None = None
    refused: str | None = None
    ignored: str | None = None
    merge: Merge | None = None
    former: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A mapping with known fields; `aliases` are former names of fields. `sparse`: without defaults."""

    fields: Mapping[str, Field]
    sparse: bool = False
    checks: Sequence[Check] = ()
    synonyms: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Union:
    """A mapping that is one of several records, told apart by its field `key`.

    `completes`: without `key` it may say a part of what the cluster has: fields of any of the cases.
    """

    key: str
    cases: Mapping[str, Record]
    completes: bool = False
    removed: Mapping[str, str] = field(default_factory=dict)


Shape = (
    Word
    | Whole
    | Real
    | Flag
    | Choice
    | Free
    | ListOf
    | MapOf
    | Alternatives
    | Hyperparameters
    | Record
    | Union
)
