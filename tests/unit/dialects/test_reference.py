"""docs/using/run-file.md documents every field that the reader knows, and its examples are good run files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tarmac.dialects.native.code import DIRECTORY, REPOSITORY
from tarmac.dialects.native.commands import HOOKS
from tarmac.dialects.native.fields import ENVIRONMENT, PAUSE, PROCESS, RESOURCES, ROLE, RUN
from tarmac.dialects.native.inputs import ARTIFACTS, BIND
from tarmac.dialects.native.reader import CONVENTIONS, LOG_POLICY
from tarmac.dialects.section import Fields
from tarmac.systems.registry import read

PAGE = (Path(__file__).resolve().parents[3] / "docs/using/run-file.md").read_text(encoding="utf-8")
TABLES = re.findall(r"^\| field \| type \| default \| example \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for table in TABLES
    for line in table.splitlines()[1:]
    if (cells := line.strip("|").split("|"))
}
FIELDS: dict[str, Fields] = {
    "": RUN,
    "processes.": PROCESS,
    "code.": Fields(known=DIRECTORY.known | REPOSITORY.known),
    "hooks.": HOOKS,
    "artifacts.": ARTIFACTS,
    "binds.": BIND,
    "conventions.": CONVENTIONS,
    "resources.": RESOURCES,
    "environment.": ENVIRONMENT,
    "pause.": PAUSE,
    "log_policies.": LOG_POLICY,
}


def test_every_field_has_its_row_and_every_row_its_field() -> None:
    known = {f"{prefix}{name}" for prefix, fields in FIELDS.items() for name in fields.known}
    assert set(ROWS) == known
    assert ROLE.known <= RUN.known


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
