"""Whole numbers in requests: each has bounds, within what a store has room for and a file a place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from served import HELLO, Served
from tarmac.api.operation import Body
from tarmac.model.errors import InvalidInput
from tarmac.server.app import routes_of
from tarmac.server.http.openapi import openapi

TOO_LARGE = ("1000000000000000001", "9223372036854775807", "99999999999999999999", "9" * 400)


def schema_of(plane: Served) -> dict[str, Any]:
    return openapi(routes_of(plane.service()).offers, version="1")


def parameters(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """The method and path of each route, the route, and each of its parameters that is a whole number."""
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            for each in route.get("parameters", ()):
                if any(kind.get("type") == "integer" for kind in kinds(each["schema"])):
                    yield method, path, route, each


def kinds(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema, or those of which a value may have any."""
    return schema.get("anyOf", [schema])


def test_every_whole_number_of_a_request_has_bounds(plane: Served) -> None:
    schema = schema_of(plane)
    fields = {
        f"{method} {path} {each['name']}": each["schema"] for method, path, _, each in parameters(schema)
    }
    for body in Body.__subclasses__():
        _, found = msgspec.json.schema_components([body])
        properties = found[body.__name__]["properties"]
        fields |= {f"{body.__name__} {name}": each for name, each in properties.items()}
    checked = 0
    for name, each in fields.items():
        for kind in kinds(each):
            if kind.get("type") == "integer":
                checked += 1
                assert kind["maximum"] <= 10**18, name
                assert kind["minimum"] >= -(10**18), name
    assert checked > 20


def test_a_larger_number_is_refused_by_every_route(plane: Served) -> None:
    run, transport = plane.client().submit(HELLO).id, plane.transport()
    for method, path, route, asked in parameters(schema_of(plane)):
        for value in TOO_LARGE:
            place, query = path.removeprefix("/api/v1"), [f"{asked['name']}={value}"]
            for each in route["parameters"]:
                if each["in"] == "path":
                    place = place.replace(f"{{{each['name']}}}", value if each is asked else run)
                elif each["required"] and each is not asked:
                    query.append(f"{each['name']}={run}")
            body = json.dumps({"changes": [{"run": run, "top": True}]}).encode() if method == "post" else None
            with pytest.raises(InvalidInput, match=f"{asked['name']}: .*`int` <= 1"):
                transport.request(method.upper(), f"{place}?{'&'.join(query)}", body=body)


@pytest.mark.parametrize("value", [*TOO_LARGE[2:], "-1", "9" * 5000])
@pytest.mark.parametrize(("path", "form"), [("events", "{}"), ("logs", "1.main.0.0:{}")])
def test_a_header_with_another_number_is_refused(plane: Served, path: str, form: str, value: str) -> None:
    run, transport = plane.client().submit(HELLO).id, plane.transport()
    headers = {"Last-Event-ID": form.format(value)}
    with (
        pytest.raises(InvalidInput, match="Last-Event-ID: "),
        transport.stream(f"/runs/{run}/{path}", headers=headers) as pieces,
    ):
        next(pieces)
