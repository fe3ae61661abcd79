"""MCLI run files with what becomes of them beside: a spec as JSON, or every problem as a user sees it.

The good ones are of our own writing, in the shapes that files in public repositories have.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import assert_golden
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import DIALECTS, choose, read

HERE = Path(__file__).parent / "mcli"
GOOD = sorted((HERE / "good").glob("*.yaml"))
BAD = sorted((HERE / "bad").glob("*.yaml"))
SECRET = "secret-value"


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_mcli_file_becomes_this_spec(path: Path) -> None:
    """M1, M2, M8: every public version is read, with what is reasonable for what is left out."""
    source = path.read_text(encoding="utf-8")
    reading = read(source, filename=path.name, directory="/home/ada")
    assert reading.spec.dialect == reading.spec.conventions.system == "mcli"
    assert reading.spec.unique_name
    record = encode(reading.spec)
    assert decode(RunSpec, json.loads(json.dumps(record))) == reading.spec
    del record["source"]
    found = {"spec": record, "warnings": list(reading.warnings)}
    assert_golden(path.with_suffix(".json"), json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_mcli_file_is_refused_with_these_words(path: Path) -> None:
    """M2: the error says what is misconfigured, where, and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        read(path.read_text(encoding="utf-8"), filename=path.name, directory="/home/ada")
    assert all(problem.file == path.name and problem.line for problem in caught.value.problems)
    assert SECRET not in str(caught.value)
    assert_golden(path.with_suffix(".txt"), f"{caught.value}\n")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_an_mcli_file_is_taken_by_its_content_alone(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert choose(source, filename="run", dialects=tuple(reversed(DIALECTS))).name == "mcli"


def test_the_collection_of_bad_mcli_files_is_large() -> None:
    assert len(BAD) >= 40
