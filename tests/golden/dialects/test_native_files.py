"""Native run files with what becomes of them beside: a spec as JSON, or every problem as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import assert_golden
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import read

HERE = Path(__file__).parent
GOOD = sorted((HERE / "native" / "good").glob("*.yaml"))
BAD = sorted((HERE / "native" / "bad").glob("*.yaml"))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_file_becomes_this_spec(path: Path) -> None:
    """M1: a run file is read."""
    source = path.read_bytes().decode()
    reading = read(source, filename=path.name, directory="/home/ada/digits")
    assert reading.spec.source == source
    record = encode(reading.spec)
    assert decode(RunSpec, json.loads(json.dumps(record))) == reading.spec
    del record["source"]
    found = {"spec": record, "warnings": list(reading.warnings)}
    assert_golden(path.with_suffix(".json"), json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_is_refused_with_these_words(path: Path) -> None:
    """M2: the error says what is wrong, where, and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        read(path.read_bytes().decode(), filename=path.name, directory="/home/ada/digits")
    assert all(problem.file == path.name for problem in caught.value.problems)
    assert_golden(path.with_suffix(".txt"), f"{caught.value}\n")


def test_the_collection_is_large() -> None:
    assert len(BAD) >= 40
