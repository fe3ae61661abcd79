"""Drills: how many source files a new field of the run file, or a new column of `tarmac ls`, touches.

Each drill follows a field that was added after its neighbours through the code: a file counts if it names the
field or its attribute in code, comments and docstrings left out. The checklist for fields names every one.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest
from msgspec.structs import asdict

from answers import a_summary
from source_tree import ROOT, Module, package_modules
from tarmac.cli.views.runview import COLUMNS, DIGEST, ListedRun, column_names, ordered, run_pieces, sort_keys
from tarmac.cli.views.table import Column
from tarmac.cli.views.terminal import Terminal
from tarmac.model.summary import RunSummary

SOURCE = "src/tarmac/"
CHECKLIST = (ROOT / "docs/contributing/checklists/new-field.md").read_text(encoding="utf-8")

MOST_FILES_OF_A_FIELD = 6

FIELDS = {
    "stop_on_nan": {"stop_on_nan"},  # a flag of `tarmac run`, and a variable of each worker
    "shared_memory": {"shared_memory", "shared_memory_bytes"},  # acts in the container on the node
    "log_policies": {"log_policies"},  # a list of mappings, acts in the runner
    "unique_name": {"unique_name"},  # acts on the server alone
}
"""Fields, each with the words that stand for it in code."""

OTHERS = ("systems/", "cli/doctor/")
"""Readers of other systems set a field only if their system has it; `doctor` measures the machine itself."""


def words_of(module: Module) -> frozenset[str]:
    """Every name and whole text in the code of a file."""
    found: set[str] = set()
    for node in module.nodes:
        match node:
            case (
                ast.Name(id=word)
                | ast.Attribute(attr=word)
                | ast.arg(arg=word)
                | ast.Constant(value=str() as word)
            ):
                found.add(word)
            case ast.keyword(arg=str() as word):
                found.add(word)
            case _:
                pass
    return frozenset(found)


@cache
def words_by_file() -> dict[str, frozenset[str]]:
    """The words of every file of the source, but for `OTHERS`."""
    named = ((module.path.removeprefix(SOURCE), module) for module in package_modules())
    return {name: words_of(module) for name, module in named if not name.startswith(OTHERS)}


def files_naming(words: set[str]) -> set[str]:
    """The files of the source whose code has one of these words."""
    return {name for name, found in words_by_file().items() if words & found}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_touches_few_files_and_the_checklist_names_them(field: str) -> None:
    files = files_naming(FIELDS[field])
    assert len(files) <= MOST_FILES_OF_A_FIELD, sorted(files)
    assert {name for name in files if f"`src/tarmac/{name}`" not in CHECKLIST} == set()


def test_a_column_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A throw-away column of a fact in the list: its entry alone makes it known, printed and sorted by."""
    entry: Column[ListedRun] = Column("MOST", lambda run, _now: run.max_turns)
    monkeypatch.setitem(COLUMNS, "most", entry)
    lines = [a_summary({"id": "r1", "max_turns": 2}), a_summary({"id": "r2", "max_turns": 1})]
    runs = [ListedRun(**asdict(line)) for line in lines]
    names, keys = column_names("run,most"), sort_keys("most")
    found = ordered(runs, keys, now=0.0)
    table = "\n".join(run_pieces(found, now=0.0, terminal=Terminal(), columns=names))
    assert [line.split() for line in table.splitlines()] == [["RUN", "MOST"], ["r2", "1"], ["r1", "2"]]


def test_the_facts_of_columns_come_from_one_record() -> None:
    """A column with a new fact touches the summary of a run and the table of columns: two files."""
    facts = set(RunSummary.__struct_fields__)
    own = {"run": "id", "created": "created_at", "why": "message", "type": "slot_type", "cause": "cause_code"}
    derived = {DIGEST, "ran", "started", "ended"}
    assert {own.get(name, name) for name in COLUMNS if name not in derived} <= facts
