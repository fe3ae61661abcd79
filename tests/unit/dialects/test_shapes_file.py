"""Shapes files: read with every mistake at its place; docs/operating/burst.md documents every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import fields

from tarmac.dialects.shapes_file import SHAPE, read_shapes, shape_of
from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import InvalidInput

PAGE = (Path(__file__).resolve().parents[3] / "docs/operating/burst.md").read_text(encoding="utf-8")
GIVEN = {
    "provider": "lab",
    "region": "here",
    "machine": "big",
    "slots": "8",
    "rate": "12.5",
    "rated_on": "2026-11-01",
}
WRONG = """\
[Lab]
provider = "lab"
regio = "here"
machine = ""
slots = 2000
rate = "12"
rated_on = "soon"
[b]
spot = "yes"
[[c]]
a = 1
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        read_shapes(text, filename="shapes.toml")
    assert refused.value.exit_code == 2
    return [str(problem) for problem in refused.value.problems]


def test_a_file_has_a_table_for_each_shape() -> None:
    """I13: rates in money and in credits, with their date."""
    text = """
    ["eu.h100_8x"]
    provider = "lab"
    region = "here"
    machine = "big"
    processor = "EPYC 9654"
    cpus = 96
    memory = "1.5TiB"
    slots = 8
    slot_type = "H100"
    spot = true
    rate = 19.60
    currency = "EUR"
    credits = 25
    rated_on = 2026-11-01
    """
    (shape,) = read_shapes(text, filename="shapes.toml")
    assert shape == Shape(
        id="eu.h100_8x",
        provider="lab",
        region="here",
        machine="big",
        processor="EPYC 9654",
        cpus=96.0,
        memory_bytes=3 << 39,
        slots=8,
        slot_type="h100",
        spot=True,
        rate=19.6,
        currency="EUR",
        credits=25.0,
        rated_on="2026-11-01",
    )


def test_every_mistake_of_a_file_is_reported_with_its_line_and_column() -> None:
    found = problems_of(WRONG)
    assert found[0].startswith("shapes.toml:1:2: the id of a shape, of small letters")
    assert found[1] == "shapes.toml:3:1: Lab: unknown field 'regio' (did you mean 'region'?)"
    assert [each.partition(" is expected")[0] for each in found[2:6]] == [
        "shapes.toml:4:11: Lab.machine: the provider's name for this kind of machine",
        "shapes.toml:5:9: Lab.slots: a whole number from 1 to 1024",
        "shapes.toml:6:8: Lab.rate: a number from 0 to 1e+06",
        "shapes.toml:7:12: Lab.rated_on: a day such as 2026-11-01",
    ]
    missing = re.findall(r"shapes.toml:8:2: b: '(\w+)' is missing", "\n".join(found))
    assert missing == ["provider", "region", "machine", "slots", "rate", "rated_on"]
    assert found[-2] == "shapes.toml:9:8: b.spot: true or false is expected, not 'yes' (write true)"
    assert found[-1].startswith("shapes.toml:10:3: c: a mapping with the fields")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "shapes.toml: no shape is in this file (a shape is a table: [ID], and its fields below)"),
        ("a: 1", "shapes.toml:1:2: '=' is expected after the key (this is TOML: key = value)"),
        ("[a]\nrate = 1\nrate = 2", "shapes.toml:3:9: this is not TOML: Cannot overwrite a value"),
    ],
)
def test_a_file_without_shapes_is_refused(text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


def test_a_shape_is_given_as_words_of_a_command() -> None:
    shape = shape_of("lab-h100", {**GIVEN, "slot_type": "h100", "spot": "true", "memory": "2TiB"})
    assert (shape.slots, shape.slot_type, shape.spot, shape.rate) == (8, "h100", True, 12.5)
    with pytest.raises(InvalidInput) as refused:
        shape_of("lab-h100", {**GIVEN, "spot": "yes", "price": "1", "rated_on": "2026-13-01", "rate": ""})
    assert [str(problem).partition(" is expected")[0] for problem in refused.value.problems] == [
        "lab-h100: unknown field 'price' (did you mean 'rate'?)",
        "lab-h100.spot: true or false",
        "lab-h100.rate: there is no value; a number from 0 to 1e+06",
        "lab-h100.rated_on: a day such as 2026-11-01",
    ]


def test_the_fields_are_those_of_the_record_and_each_is_documented() -> None:
    attributes = {rule.sets or name for name, rule in SHAPE.fields.items()}
    assert attributes == {field.name for field in fields(Shape)} - {"id"}
    table = PAGE.partition("\n## Shapes\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", table, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)} == set(SHAPE.fields)
