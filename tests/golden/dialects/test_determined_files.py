"""Experiment configurations with what becomes of them beside: a spec as JSON, or every problem.

All are of our own writing, in the shapes that public repositories hold, of both eras; the launch lines of
`document-...` are those of Determined's page.
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

HERE = Path(__file__).parent / "determined"
GOOD = sorted((HERE / "good").glob("*.yaml"))
BAD = sorted((HERE / "bad").glob("*.yaml"))
SECRETS = ("secret-value", "not-for-facts")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_configuration_becomes_this_spec(path: Path) -> None:
    """D1, D9, D11: every part of the format is read, filled in with its defaults, and made into a run."""
    source = path.read_text(encoding="utf-8")
    reading = read(source, filename=path.name, directory="/home/ada/context")
    assert reading.spec.dialect == reading.spec.conventions.system == "determined"
    record = encode(reading.spec)
    assert decode(RunSpec, json.loads(json.dumps(record))) == reading.spec
    assert not any(secret in json.dumps(record["conventions"]) for secret in SECRETS)
    assert not any(secret in warning for secret in SECRETS for warning in reading.warnings)
    del record["source"]
    found = {"spec": record, "warnings": list(reading.warnings)}
    assert_golden(path.with_suffix(".json"), json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_configuration_is_refused_with_these_words(path: Path) -> None:
    """D1, D9: the error says what was found, where, and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        read(
            path.read_text(encoding="utf-8"),
            filename=path.name,
            directory="/home/ada/context",
            dialect="determined",
        )
    assert all(problem.file == path.name and problem.line for problem in caught.value.problems)
    assert not any(secret in str(caught.value) for secret in SECRETS)
    assert_golden(path.with_suffix(".txt"), f"{caught.value}\n")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_configuration_is_taken_by_its_content_alone(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert choose(source, filename="run", dialects=DIALECTS).name == "determined"
    assert choose(source, filename="run", dialects=tuple(reversed(DIALECTS))).name == "determined"


def test_the_collection_of_bad_configurations_is_large() -> None:
    assert len(BAD) >= 50
