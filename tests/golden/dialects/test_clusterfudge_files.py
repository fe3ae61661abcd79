"""Launch requests and launch scripts with what becomes of them beside: a spec as JSON, or every problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden import assert_golden
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.clusterfudge.dialect import is_launch_script
from tarmac.systems.clusterfudge.script import check_script
from tarmac.systems.registry import read

HERE = Path(__file__).parent / "clusterfudge"
REQUESTS = sorted(path for path in (HERE / "good").glob("*.json") if ".spec" not in path.suffixes)
SCRIPTS = sorted((HERE / "good").glob("*.script"))
BAD_REQUESTS = sorted((HERE / "bad").glob("*.json"))
BAD_SCRIPTS = sorted((HERE / "bad").glob("*.script"))


def stem(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", REQUESTS, ids=stem)
def test_a_good_request_becomes_this_spec(path: Path) -> None:
    """C2, C3, C4, C5, C6, C7, C10: what a launch asks for."""
    source = path.read_bytes().decode()
    reading = read(source, filename=path.name, directory="/home/ada/digits")
    assert reading.spec.source == source
    record = encode(reading.spec)
    assert decode(RunSpec, json.loads(json.dumps(record))) == reading.spec
    del record["source"]
    found = {"spec": record, "warnings": list(reading.warnings)}
    assert_golden(path.with_suffix(".spec.json"), json.dumps(found, indent=1) + "\n")


@pytest.mark.parametrize("path", BAD_REQUESTS, ids=stem)
def test_a_bad_request_is_refused_with_these_words(path: Path) -> None:
    """C2: the error says what is wrong, where, and what is allowed."""
    with pytest.raises(InvalidInput) as caught:
        read(
            path.read_bytes().decode(),
            filename=path.name,
            directory="/home/ada/digits",
            dialect="clusterfudge",
        )
    assert all(problem.file == path.name for problem in caught.value.problems)
    assert "hunter2" not in str(caught.value)
    assert_golden(path.with_suffix(".txt"), f"{caught.value}\n")


@pytest.mark.parametrize("path", [*SCRIPTS, *BAD_SCRIPTS], ids=stem)
def test_a_script_is_judged_with_these_words(path: Path) -> None:
    """C1: a launch script is checked without being started."""
    text = path.read_bytes().decode()
    assert is_launch_script(text)
    report = check_script(text, filename=f"{path.stem}.py")
    assert bool(report.found) == (path.parent.name == "bad")
    lines = [f"{problem}" for problem in report.found]
    lines += [f"warning: {warning}" for warning in report.warnings]
    assert "hunter2" not in str(lines)
    assert_golden(path.with_suffix(".txt"), "".join(f"{line}\n" for line in lines))


def test_the_collection_is_large() -> None:
    assert len(BAD_REQUESTS) + len(BAD_SCRIPTS) >= 60
