"""A grid from the command line: `tarmac run --sweep lr=1e-3,1e-4 --sweep seed=0..9`. Called by the server."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tarmac.dialects.kinds import yaml12
from tarmac.dialects.located import Scalar
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec
from tarmac.model.spec import RunSpec

MOST_POINTS = 10_000
"""Maximum number of values in one `A..B`."""

_SPAN = re.compile(r"(-?\d{1,15})\.\.(-?\d{1,15})")
_LIKE_SPAN = re.compile(r"[^/\s]*\.\.[^/\s]*")
"""A malformed range; a text with a slash is a path."""


def swept(spec: RunSpec, sweep: Sequence[tuple[str, str]]) -> RunSpec:
    """The spec as a grid over these values; the other parameters stay unchanged.

    Raises InvalidInput for a sweep without values, or for a file that has a search.
    """
    if spec.search is not None and spec.search.method is not SearchMethod.GRID:
        raise InvalidInput(
            f"--sweep makes a grid, and the file searches already ({spec.search.method})",
            hint="take the search out of the file, or leave --sweep out",
        )
    problems = [
        Problem(message=f"--sweep {name}: {found[0]}", hint=found[1])
        for name, text in sweep
        if (found := _problem(name, text)) is not None
    ]
    if problems:
        raise InvalidInput(problems)
    named = {tuple(name.split(".")): values_of(text) for name, text in sweep}
    kept = spec.search.space if spec.search is not None else tuple(_constants(spec.parameters or {}))
    _refuse_unknown(named, kept)
    space = tuple(item for item in kept if item.path not in named) + tuple(
        ParameterRange(path=path, kind=RangeKind.CHOICE, values=values) for path, values in named.items()
    )
    search = spec.search or SearchSpec(method=SearchMethod.GRID)
    return replace(spec, search=replace(search, space=space))


def values_of(text: str) -> tuple[Any, ...]:
    """The values that `1e-3,1e-4` or `0..9` lists."""
    found: list[Any] = []
    for part in text.split(","):
        span = _SPAN.fullmatch(part.strip())
        if span is None:
            found.append(yaml12(Scalar(text=part.strip())))
            continue
        low, high = int(span[1]), int(span[2])
        found += range(low, high + 1) if low <= high else range(low, high - 1, -1)
    return tuple(found)


def _problem(name: str, text: str) -> tuple[str, str] | None:
    """The problem with the values of a parameter, with a hint."""
    if not name or "" in name.split("."):
        return "a parameter has a name", "--sweep lr=1e-3,1e-4"
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        return f"a value is missing in {text!r}", "--sweep lr=1e-3,1e-4"
    for part in parts:
        if _LIKE_SPAN.fullmatch(part) and not _SPAN.fullmatch(part):
            message = f"a range is of whole numbers, such as 0..9, and {part!r:.60} is none"
            return message, "list other values: --sweep lr=0.1,0.2,0.3"
    spans = [span for part in parts if (span := _SPAN.fullmatch(part)) is not None]
    if any(abs(int(span[2]) - int(span[1])) >= MOST_POINTS for span in spans):
        return f"at most {MOST_POINTS:,} values are allowed", "--sweep seed=0..9"
    values = [repr(value) for value in values_of(text)]
    twice = next((value for value in values if values.count(value) > 1), None)
    return (f"{twice} stands there twice", "each value is one trial") if twice is not None else None


def _refuse_unknown(named: Collection[tuple[str, ...]], kept: Sequence[ParameterRange]) -> None:
    """Raise InvalidInput for a parameter that the file does not list: it is probably misspelt."""
    known = {item.path for item in kept}
    groups = {path[:end] for path in (*known, *named) for end in range(1, len(path))}
    problems = [
        Problem(
            message=f"--sweep {'.'.join(path)}: the file has no such parameter",
            hint=f"it has {', '.join('.'.join(each) for each in sorted(known))}; add it there if it is new",
        )
        for path in named
        if known and path not in known and path not in groups
    ]
    if problems:
        raise InvalidInput(problems)


def _constants(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[ParameterRange]:
    found: list[ParameterRange] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            found += _constants(value, (*path, name))
        else:
            found.append(ParameterRange(path=(*path, name), kind=RangeKind.CONST, values=(value,)))
    return found
