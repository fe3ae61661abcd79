"""The description of the API, made from the operations of its routes. Served by `app`."""

import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, get_args

import msgspec

from tarmac import api
from tarmac.api.operation import JSON, Operation
from tarmac.server.http.routing import Offer

_BINARY = {"type": "string", "format": "binary"}


def openapi(offers: Sequence[Offer], *, version: str) -> dict[str, Any]:
    """The OpenAPI document."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for offer in offers:
        operation = offer.operation
        ways = paths.setdefault(f"{operation.base}{operation.path}", {})
        responses = {
            str(operation.status): _answer(operation, schemas),
            **{status: _content("Error", JSON, schemas.of(api.Error)) for status in ("4XX", "5XX")},
        }
        way = operation.method.lower()
        if way in ways:
            ways[way]["responses"] |= responses
        else:
            ways[way] = {**_request(offer, schemas), "responses": responses}
    return {
        "openapi": "3.1.0",
        "info": {"title": "tarmac", "version": version},
        "paths": paths,
        "components": {"schemas": schemas.found()},
    }


class _Schemas:
    """The schemas of records, as far as the document refers to them."""

    def __init__(self) -> None:
        self._kinds: list[Any] = []
        self._of_queries: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a record, one of two, or a list or dict of records."""
        kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        self._kinds += kinds
        schemas, _ = _components(kinds)
        return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}

    def of_query(self, kind: Any) -> dict[str, Any]:
        """The schema of a query, which is no component itself."""
        _, found = _components([kind])
        schema: dict[str, Any] = found.pop(kind.__name__)
        self._of_queries |= found
        return schema

    def found(self) -> dict[str, Any]:
        """The schemas by name."""
        return self._of_queries | _components(self._kinds)[1]


def _components(kinds: Sequence[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")


def _request(offer: Offer, schemas: _Schemas) -> dict[str, Any]:
    operation, description = offer.operation, offer.text
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    if operation.query is not None:
        query = schemas.of_query(operation.query)
        description += f"\n\n{query['description']}"
        parameters += [
            {"name": name, "in": "query", "required": name in query["required"], "schema": schema}
            for name, schema in query["properties"].items()
        ]
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{operation.method.lower()}{operation.path}").rstrip("_"),
        "description": description,
        "tags": [operation.path.split("/")[1]],
    }
    if parameters:
        described["parameters"] = parameters
    if operation.stream is not None:
        schema = {"type": "object"} if operation.stream == JSON else _BINARY
        described["requestBody"] = {"content": {operation.stream: {"schema": schema}}}
    elif operation.body is not None:
        content = {JSON: {"schema": schemas.of(operation.body)}}
        described["requestBody"] = {"content": content, "required": True}
    return described


def _answer(operation: Operation[Any, Any, Any], schemas: _Schemas) -> dict[str, Any]:
    schema = _BINARY if operation.answer is bytes else schemas.of(operation.answer)
    return _content("Successful Response", operation.media, schema)


def _content(description: str, media: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema}}}
