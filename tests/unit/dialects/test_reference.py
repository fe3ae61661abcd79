"""docs/using/run-file.md documents every field that the reader knows, and its examples are good run files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tarmac.dialects.native.code import DIRECTORY, REPOSITORY
from tarmac.dialects.native.fields import RUN
from tarmac.dialects.native.roles import PROCESS, RESOURCES
from tarmac.dialects.schema import ListOf, Record
from tarmac.systems.registry import read

PAGE = (Path(__file__).resolve().parents[3] / "docs/using/run-file.md").read_text(encoding="utf-8")
TABLES = re.findall(r"^\| field \| type \| default \| example \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for table in TABLES
    for line in table.splitlines()[1:]
    if (cells := line.strip("|").split("|"))
}
ELSEWHERE = {"search"}
"""Mappings that have a page of their own."""

TABLES_OF = {
    **{f"{name}.": row.shape for name, row in RUN.fields.items() if name not in ELSEWHERE},
    "": RUN,
    "processes.": PROCESS,
    "code.": Record({**DIRECTORY.fields, **REPOSITORY.fields}),
    "resources.": RESOURCES,
}


def fields_of_table(shape: object) -> set[str]:
    """The fields of a mapping, or of each mapping in a list."""
    if isinstance(shape, ListOf):
        return fields_of_table(shape.item)
    return set(shape.fields) if isinstance(shape, Record) else set()


def test_every_field_has_its_row_and_every_row_its_field() -> None:
    known = {f"{prefix}{name}" for prefix, shape in TABLES_OF.items() for name in fields_of_table(shape)}
    assert set(ROWS) == known


def test_every_row_has_a_type_a_default_and_an_example() -> None:
    assert [name for name, cells in ROWS.items() if len(cells) != 3 or not all(cells)] == []


def test_no_field_is_called_unsupported() -> None:
    assert "Not supported yet" not in PAGE


BESIDE = {"uneven": "slots: 7\n", "nodes": "slots: 4\n", "max_rapid_cycles": "mode: cycle\n"}
"""What a field needs beside it to mean something."""


@pytest.mark.parametrize("field", [name for name in ROWS if "." not in name])
def test_the_examples_of_the_rows_are_read(field: str) -> None:
    for example in re.findall(r"`([^`]+)`", ROWS[field][2]):
        rest = "" if field in {"command", "processes", "roles"} else "command: hostname\n"
        read(
            f"{rest}{BESIDE.get(field, '')}{field}: {example}\n",
            filename="example.yaml",
            directory="/home/ada",
        )


@pytest.mark.parametrize("source", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_of_the_page_are_read(source: str) -> None:
    read(source, filename="example.yaml", directory="/home/ada")
