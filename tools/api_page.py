"""Writes the routes, the overrides and the records of the API into docs/using/api.md, which so cannot drift.

Called by people after a change of an operation, a record or the docstring of one (`python tools/api_page.py`)
and by the tests (`--check`: fails when the page is not what would be written, or leaves a route out). The
prose between is written by hand.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, cast
from unittest.mock import MagicMock

import msgspec
from msgspec import inspect as kinds

from tarmac import api
from tarmac.api.operation import LARGEST, Body, Operation
from tarmac.dialects.overrides import OVERRIDES
from tarmac.model.progress import Event
from tarmac.server.app import routes_of
from tarmac.server.http.routing import Offer
from tarmac.server.service import Service

PAGE = Path(__file__).resolve().parents[1] / "docs/using/api.md"

BLOCK = re.compile(
    r"<!-- (?P<what>routes|overrides|records)(?:: (?P<areas>[a-z -]+?))? -->\n.*?<!-- end -->", re.DOTALL
)

IN_STREAMS = (Event, api.Error, api.RunStatus, api.SessionBody, api.StreamNotice)
"""Records that no operation names: those in streams, and the one of all errors."""

WIDTH = 140

Named: TypeAlias = kinds.StructType | kinds.DataclassType | kinds.EnumType


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    offers = routes_of(cast("Service", MagicMock())).offers
    written = BLOCK.sub(lambda block: _block(block, offers), text)
    areas = {area for block in BLOCK.finditer(text) for area in (block["areas"] or "").split()}
    if missing := {area_of(offer.operation) for offer in offers} - areas:
        print(f"{PAGE.name} says nothing of: {', '.join(sorted(missing))}", file=sys.stderr)
        return 1
    if "--check" in sys.argv[1:]:
        if written != text:
            print(f"{PAGE.name} is out of date: python tools/api_page.py", file=sys.stderr)
        return int(written != text)
    PAGE.write_text(written, encoding="utf-8")
    return 0


def _block(block: re.Match[str], offers: Sequence[Offer]) -> str:
    begin, _, _ = block[0].partition("\n")
    if block["what"] == "routes":
        areas = block["areas"].split()
        lines = routes(offer for offer in offers if area_of(offer.operation) in areas)
    elif block["what"] == "overrides":
        lines = overrides()
    else:
        lines = records(offers)
    return "\n".join([begin, *lines, "<!-- end -->"])


def area_of(operation: Operation[Any, Any, Any]) -> str:
    """The first name in the path of an operation; `monitoring` for those outside the base path."""
    return operation.path.split("/")[1] if operation.base else "monitoring"


# --- routes


def routes(offers: Iterable[Offer]) -> Iterator[str]:
    """A table of operations: what each takes, what it answers, and the docstrings of handler and query."""
    yield from ("| route | takes | answers | does |", "|---|---|---|---|")
    for offer in sorted(offers, key=lambda each: each.operation.path):
        operation, text = offer.operation, offer.text
        if operation.query is not None:
            text += f" Parameters: {' '.join(_docstrings(operation.query))}"
        cells = (
            f"`{operation.method} {operation.path}`",
            _request(operation),
            _answer(operation),
            _plain(text),
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _request(operation: Operation[Any, Any, Any]) -> str:
    parts = [_given(field).replace(" or null", "") for field in _parameters(operation)]
    if operation.body is not None:
        parts.append(f"body: {notation(kinds.type_info(operation.body))}")
    if operation.stream is not None:
        parts.append(f"body: stream of `{operation.stream}`")
    return "; ".join(parts)


def _parameters(operation: Operation[Any, Any, Any]) -> Sequence[kinds.Field]:
    query = kinds.type_info(operation.query) if operation.query is not None else None
    return query.fields if isinstance(query, kinds.StructType) else ()


def _answer(operation: Operation[Any, Any, Any]) -> str:
    status = f"{operation.status}: " if operation.status != 200 else ""
    return f"{status}{notation(kinds.type_info(operation.answer))}"


# --- overrides


def overrides() -> Iterator[str]:
    """A table of the values in a run file that a submission may replace."""
    yield from ("| override | value |", "|---|---|")
    for name, field in OVERRIDES.fields.items():
        yield f"| `{name}` | {getattr(field.shape, 'description', 'see above').rstrip(',')} |"


# --- records


def records(offers: Sequence[Offer]) -> Iterator[str]:
    """Every record in a request or an answer, by name: its docstring, and its fields or values."""
    found: dict[str, Named] = {}
    for offer in offers:
        operation = offer.operation
        for field in _parameters(operation):
            _collect(field.type, found)
        _collect(kinds.type_info(operation.answer), found)
        if operation.body is not None:
            _collect(kinds.type_info(operation.body), found)
    for kind in IN_STREAMS:
        _collect(kinds.type_info(kind), found)
    for name, record in sorted(found.items()):
        yield from ("", f"### {name}", "", *_wrapped(_plain(" ".join(_docstrings(record.cls)))), "")
        yield from _wrapped("; ".join(_members(record)))
    yield ""


def _collect(kind: kinds.Type, found: dict[str, Named]) -> None:
    if isinstance(kind, kinds.StructType | kinds.DataclassType | kinds.EnumType):
        name = kind.cls.__name__
        if name in found:
            assert found[name].cls is kind.cls, f"two records are called {name}"
            return
        found[name] = kind
    for part in _parts(kind):
        _collect(part, found)


def _parts(kind: kinds.Type) -> Sequence[kinds.Type]:
    """The types inside a type."""
    match kind:
        case kinds.StructType() | kinds.DataclassType():
            return [field.type for field in kind.fields]
        case kinds.UnionType():
            return kind.types
        case kinds.CollectionType():
            return [kind.item_type]
        case kinds.DictType():
            return [kind.value_type]
    return ()


def _docstrings(record: type) -> Iterator[str]:
    """The docstring of a record, and what those of its bases say after their first paragraphs."""
    text = inspect.cleandoc(record.__doc__ or "")
    if issubclass(record, Enum):
        for member in record:
            text = re.sub(rf"\b{member.name}\b", f"`{member.value}`", text)
    yield text
    for base in record.__mro__[1:]:
        if base.__module__.startswith("tarmac.") and base.__doc__:
            yield inspect.cleandoc(base.__doc__).partition("\n\n")[2]


def _members(record: Named) -> Iterator[str]:
    if isinstance(record, kinds.EnumType):
        yield from (f"`{value.value}`" for value in record.cls)
        return
    is_body = issubclass(record.cls, Body)
    for field in record.fields:
        yield _given(field) if is_body else f"`{field.encode_name}` {notation(field.type)}"


def _given(field: kinds.Field) -> str:
    """A parameter or a field of a body, with its default, or that there is none."""
    default = None if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)
    shown = default if isinstance(default, str) else json.dumps(default)
    written = f"={shown}" if default not in (None, "", []) else ""
    return f"`{field.encode_name}{written}` {notation(field.type)}{' (required)' if field.required else ''}"


# --- notation


def notation(kind: kinds.Type) -> str:
    """A type in short, with links to records."""
    match kind:
        case kinds.StructType() | kinds.DataclassType() | kinds.EnumType():
            return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
        case kinds.UnionType():
            ordered = sorted(kind.types, key=lambda each: isinstance(each, kinds.NoneType))
            return " or ".join(notation(each) for each in ordered)
        case kinds.DictType():
            inner = kind.value_type
            return "JSON object" if isinstance(inner, kinds.AnyType) else f"map of {_one(inner)}"
        case kinds.CollectionType():
            return f"list of {_one(kind.item_type)}{_size(kind, '')}"
        case kinds.IntType():
            return f"integer{_limits(kind)}"
        case kinds.FloatType():
            return f"number{_limits(kind)}"
        case kinds.StrType():
            return f"text{_size(kind, ' characters')}"
    plain = {
        kinds.BoolType: "boolean",
        kinds.BytesType: "bytes",
        kinds.NoneType: "null",
        kinds.AnyType: "JSON",
    }
    return plain[type(kind)]


def _one(kind: kinds.Type) -> str:
    """The type of each item of a list or a map."""
    return f"({notation(kind)})" if isinstance(kind, kinds.UnionType) else notation(kind)


def _limits(kind: kinds.IntType | kinds.FloatType) -> str:
    """The least and the largest number; those that only protect the store are left out."""
    above = f" above {kind.gt:,g}" if kind.gt is not None else ""
    least = f" from {kind.ge:,}" if kind.ge is not None and kind.ge > -LARGEST else ""
    most = f" to {kind.le:,}" if kind.le is not None and kind.le < LARGEST else ""
    return f"{above}{least}{most}"


def _size(kind: kinds.CollectionType | kinds.DictType | kinds.StrType, unit: str) -> str:
    least, most = kind.min_length, kind.max_length
    if most is None:
        return ""
    return f" ({least} to {most:,}{unit})" if least else f" (up to {most:,}{unit})"


# --- text


def _plain(text: str) -> str:
    """The text of a docstring in one line, in the words of JSON."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.exit(main())
