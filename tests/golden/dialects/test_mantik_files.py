"""Compute backend configurations with what becomes of them beside: a spec as JSON, or every problem.

The first good ones are the examples and snippets of the document, those in between made whole by a site and a
queue. An MLproject lies beside all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import assert_golden
from tarmac.dialects.dialect import Extras
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import DIALECTS, choose, read

HERE = Path(__file__).parent / "mantik"
EXPECTED = ".spec.json"
GOOD = sorted(
    path
    for path in (HERE / "good").iterdir()
    if path.suffix in (".yaml", ".json") and not path.name.endswith(EXPECTED)
)
BAD = sorted((HERE / "bad").glob("*.yaml"))
SECRET = "secret-value"


def beside(path: Path) -> Extras:
    """The MLflow project that a configuration stands in."""
    return Extras(files=(("MLproject", (path.parent / "MLproject").read_text(encoding="utf-8")),))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_configuration_becomes_this_spec(path: Path) -> None:
    """K1 to K9: every key of the document is read, in YAML and in JSON."""
    source = path.read_text(encoding="utf-8")
    reading = read(source, filename=path.name, directory="/home/ada/digits", extras=beside(path))
    assert reading.spec.dialect == reading.spec.conventions.system == "mantik"
    record = encode(reading.spec)
    assert decode(RunSpec, json.loads(json.dumps(record))) == reading.spec
    del record["source"]
    found = {"spec": record, "warnings": list(reading.warnings)}
    assert_golden(path.with_name(path.stem + EXPECTED), json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_configuration_is_refused_with_these_words(path: Path) -> None:
    """K1 to K9: the error says what is wrong, where, and what is allowed; a secret is never shown."""
    with pytest.raises(InvalidInput) as caught:
        read(
            path.read_text(encoding="utf-8"),
            filename=path.name,
            directory="/home/ada/digits",
            dialect="mantik",
            extras=beside(path),
        )
    assert all(problem.file == path.name and problem.line for problem in caught.value.problems)
    assert SECRET not in str(caught.value)
    assert_golden(path.with_suffix(".txt"), f"{caught.value}\n")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_configuration_is_taken_by_its_content_alone(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert choose(source, filename="run", dialects=tuple(reversed(DIALECTS))).name == "mantik"


def test_the_collection_of_bad_configurations_is_large() -> None:
    assert len(BAD) >= 50
