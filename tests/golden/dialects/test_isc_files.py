"""ISC launch files with what becomes of them beside: a spec as JSON, or every problem as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import assert_golden
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import DIALECTS, choose, read

HERE = Path(__file__).parent / "isc"
GOOD = sorted((HERE / "good").glob("*.isc"))
BAD = sorted((HERE / "bad").glob("*.isc"))
SECRET = "s3cr3t-value"


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_isc_file_becomes_this_spec(path: Path) -> None:
    """I3-I10: every key of every year is honoured, brought into today's, or ignored with a warning."""
    source = path.read_text(encoding="utf-8")
    reading = read(source, filename=path.name, directory="/home/ada")
    assert reading.spec.dialect == reading.spec.conventions.system == "isc"
    record = encode(reading.spec)
    assert decode(RunSpec, json.loads(json.dumps(record))) == reading.spec
    del record["source"]
    found = {"spec": record, "warnings": list(reading.warnings)}
    assert_golden(path.with_suffix(".json"), json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_isc_file_is_refused_with_these_words(path: Path) -> None:
    """I3-I10: the error says what was found, where, and what is allowed; secrets are never repeated."""
    with pytest.raises(InvalidInput) as caught:
        read(path.read_text(encoding="utf-8"), filename=path.name, directory="/home/ada")
    assert all(problem.file == path.name for problem in caught.value.problems)
    assert SECRET not in str(caught.value)
    assert_golden(path.with_suffix(".txt"), f"{caught.value}\n")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_an_isc_file_is_taken_by_its_content_alone(path: Path) -> None:
    """I3: the name decides nothing."""
    source = path.read_text(encoding="utf-8")
    assert choose(source, filename="run.yaml", dialects=tuple(reversed(DIALECTS))).name == "isc"


def test_the_collection_of_bad_isc_files_is_large() -> None:
    assert len(BAD) >= 30
