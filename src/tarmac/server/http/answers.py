"""JSON answers, encoded by msgspec: a list of ten thousand runs takes milliseconds."""

from __future__ import annotations

from types import UnionType
from typing import Any, get_args
from urllib.parse import quote

import msgspec
from starlette.responses import Response


class JsonAnswer(Response):
    """A body of records and plain values; a record has all its fields, an enum its value."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def notice(text: str | None) -> dict[str, str] | None:
    """The header with a sentence that clients show beside an answer; None if there is no text."""
    return {"tarmac-notice": quote(text)} if text else None


class Answers:
    """The records that routes answer, as components of the OpenAPI document."""

    _REFERENCE = "#/components/schemas/{name}"

    def __init__(self) -> None:
        self._kinds: list[Any] = []

    def described(self, kind: Any) -> dict[str, Any]:
        """The description of an answer of this kind: a record, one of two, or a list or dict of records."""
        kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        self._kinds += kinds
        schemas, _ = msgspec.json.schema_components(kinds, ref_template=self._REFERENCE)
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
        return {"description": "Successful Response", "content": {"application/json": {"schema": schema}}}

    def schemas(self) -> dict[str, Any]:
        """The schema of each record in the described answers, by name."""
        return msgspec.json.schema_components(self._kinds, ref_template=self._REFERENCE)[1]
