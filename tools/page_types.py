"""Writes the types of the API for the page into web/src/api/types.ts, which so cannot drift.

Called by people after a change of an operation or a record (`python tools/page_types.py`) and by the tests
(`--check`: fails when the file is not what would be written). A changed route then breaks the page's build.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from unittest.mock import MagicMock

from tarmac.api.operation import BASE
from tarmac.server.app import routes_of
from tarmac.server.http.openapi import openapi
from tarmac.server.service import Service

FILE = Path(__file__).resolve().parents[1] / "web/src/api/types.ts"

SENT = {"NodeChoice", "QueueChange"}
"""The records of requests that are not named `...Body`: what has a default may be left out."""

HEAD = """// The API's records and operations, written by tools/page_types.py from its description.
"""


def main() -> int:
    written = "\n".join(lines()) + "\n"
    if "--check" in sys.argv[1:]:
        current = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
        if current != written:
            print(f"{FILE.name} is out of date: python tools/page_types.py", file=sys.stderr)
        return int(current != written)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(written, encoding="utf-8")
    return 0


def lines() -> Iterator[str]:
    """The lines of the file."""
    document = openapi(routes_of(cast("Service", MagicMock())).offers, version="")
    yield HEAD
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"export type {_name(name)} = {_type(schema, sent=name.endswith('Body') or name in SENT)};"
    yield "\n/** The operations by method and path: what a request may have, and what its answer is. */"
    yield "export interface Operations {"
    for path, ways in document["paths"].items():
        if not path.startswith(BASE):
            continue
        for method, described in ways.items():
            name = json.dumps(f"{method.upper()} {path.removeprefix(BASE)}")
            yield f"  {name}: {_operation(described)};"
    yield "}"


def _operation(described: Mapping[str, Any]) -> str:
    query = [each for each in described.get("parameters", ()) if each["in"] == "query"]
    fields = "; ".join(
        f"{_key(each['name'])}{'' if each['required'] else '?'}: {_type(each['schema'])}" for each in query
    )
    status = next(status for status in described["responses"] if status.startswith("2"))
    answer = _content(described["responses"][status])
    body = _content(described["requestBody"]) if "requestBody" in described else "undefined"
    return f"{{ query: {{ {fields} }}; body: {body}; answer: {answer} }}"


def _content(holder: Mapping[str, Any]) -> str:
    ((_, content),) = holder["content"].items()
    return _type(content["schema"])


def _type(schema: Mapping[str, Any], *, sent: bool = False) -> str:
    """The type of a schema. `sent`: of a request, which may leave out what has a default."""
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if "const" in schema:
        return json.dumps(schema["const"])
    match schema.get("type"):
        case "array":
            item = _type(schema.get("items") or {})
            return f"({item})[]" if " " in item else f"{item}[]"
        case "object" if "properties" in schema:
            needed = schema.get("required", ()) if sent else schema["properties"]
            fields = (
                f"{_key(name)}{'' if name in needed else '?'}: {_type(of)}"
                for name, of in schema["properties"].items()
            )
            return f"{{ {'; '.join(fields)} }}"
        case "object":
            inner = schema.get("additionalProperties")
            return f"Record<string, {_type(inner) if isinstance(inner, Mapping) else 'unknown'}>"
        case "integer" | "number":
            return "number"
        case "string":
            return "Blob" if schema.get("format") == "binary" else "string"
        case "boolean":
            return "boolean"
        case "null":
            return "null"
        case None:
            return "unknown"
    raise AssertionError(f"no type for {schema}")


def _name(name: str) -> str:
    """A type's name: `Error` and others are names of the language."""
    name = "".join(part[:1].upper() + part[1:] for part in name.replace("_", " ").split())
    return f"{name}Answer" if name in {"Array", "Error", "Event", "Node", "Notification"} else name


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


if __name__ == "__main__":
    sys.exit(main())
