"""Clusterfudge's ids, words, variables and scripts where no server is needed."""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tarmac
from tarmac.client.launching import json_text
from tarmac.dialects.dialect import Report
from tarmac.dialects.slot_types import KNOWN
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.spec import RunSpec
from tarmac.systems.clusterfudge.dialect import is_launch_script
from tarmac.systems.clusterfudge.fields import KIND, SLOT_TYPES
from tarmac.systems.clusterfudge.identity import launch_number, launch_uuid
from tarmac.systems.clusterfudge.reader import DEPLOYMENT, REQUEST
from tarmac.systems.clusterfudge.roles import GROUP, PROCESS, RESOURCES
from tarmac.systems.clusterfudge.script import check_script
from tarmac.systems.clusterfudge.scripts.form import KIND as SENT_KIND
from tarmac.systems.clusterfudge.signatures import OTHER_NAMES, SIGNATURES
from tarmac.systems.clusterfudge.statuses import OUTCOMES, STATES, status
from tarmac.systems.registry import choose, read

ROOT = Path(__file__).resolve().parents[3]
WORDS = sorted(
    {
        *REQUEST.fields.keys(),
        *GROUP.fields,
        *PROCESS.fields,
        *RESOURCES.fields,
        *DEPLOYMENT.fields.keys(),
        "repo",
        "branch",
    }
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([KIND, "stop", ""]),
    st.text(max_size=9),
)
TREES = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(WORDS), TREES, max_size=6), st.lists(TREES, max_size=2))
def test_any_request_is_read_or_refused(tree: dict[str, Any], jobs: list[Any]) -> None:
    for request in (tree, {"clusterfudge": KIND, **tree, "jobs": jobs}):
        try:
            spec = read(json_text(request), filename="a.json", directory="/", dialect="clusterfudge").spec
        except InvalidInput as refusal:
            problems = refusal.problems
        else:
            assert decode(RunSpec, json.loads(json.dumps(encode(spec)))) == spec
            continue
        assert problems
        assert all(str(problem).isprintable() for problem in problems)


NAMES = [
    "import clusterfudge",
    "create_launch",
    "cf.",
    "clusterfudge.",
    "Job",
    "Process",
    "Resources",
    "jobs",
]
MARKS = [
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    "*",
    "**",
    "\n",
    "    ",
    "lambda:",
    "f'{a}'",
    ":",
    "#",
    "\\",
    "\0",
    "é",
]
PIECES = st.lists(
    st.sampled_from([*NAMES, *MARKS, "command", "h100", "'a b'", "1", "-1", "None"]), max_size=25
).map("".join)


@given(PIECES | st.text())
def test_any_text_is_judged_as_a_script(text: str) -> None:
    for source in (text, f"import clusterfudge\ncreate_launch({text})\n"):
        report = check_script(source, filename="a.py")
        assert all((item.line or 1) >= 1 and (item.column or 1) >= 1 for item in report.found)


@pytest.mark.parametrize("text", ["(" * 5_000, "x = " + "-" * 20_000 + "1", "\0", "x" * (1 << 19)])
def test_a_hostile_script_is_refused_but_quickly(text: str) -> None:
    report = check_script(f"import clusterfudge\n{text}", filename="a.py")
    assert report.found or report.warnings


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("import clusterfudge\nclusterfudge.Client().create_launch(r)", True),
        ("import os, clusterfudge as cf\ncf.CreateLaunchRequest([])", True),
        ("def main():\n    from clusterfudge import Client\n    Client().create_launch(r)", True),
        ("from clusterfudge.clusterfudge import Client\nClient().create_launch(r)", True),
        ("from tarmac import clusterfudge\nclusterfudge.Client().create_launch(r)", True),
        ("import clusterfudge\nprint('no launch')", False),
        ("import os\nreport_portal.create_launch(r)", False),
        ("# import clusterfudge\ncreate_launch(r)", False),
    ],
)
def test_a_launch_script_is_known_by_its_content(text: str, is_one: bool) -> None:
    """C1: by what it imports and calls, whatever its name."""
    assert is_launch_script(text) is is_one
    if is_one:
        assert choose(text, filename="run.yaml").name == "clusterfudge"


def test_requests_are_known_by_their_mark() -> None:
    request = '{"clusterfudge": "CreateLaunchRequest", "jobs": []}'
    assert choose(request, filename="anything").name == "clusterfudge"
    assert choose("command: echo clusterfudge", filename="run.yaml").name == "native"
    assert SENT_KIND == KIND


def test_ids_are_the_same_every_time_and_differ_from_run_to_run() -> None:
    """C9: CLUSTERFUDGE_LAUNCH_ID is a UUID that the client can work out too."""
    assert launch_uuid("r1") == launch_uuid("r1") != launch_uuid("r2")
    assert len(launch_uuid("r1").split("-")) == 5
    numbers = {launch_number(f"r{index}") for index in range(1000)}
    assert len(numbers) == 1000
    assert all(0 < number < 2**31 for number in numbers)


def test_every_state_has_a_status_that_scripts_know() -> None:
    known = set(tarmac.systems.clusterfudge.scripts.LaunchStatus.keys())
    assert {*OUTCOMES.values(), *STATES.values()} <= known
    assert {*STATES, RunState.ENDED} == set(RunState)
    assert status(Report(state=RunState.ENDED, outcome=Outcome.FAILED)) == "LAUNCH_STATUS_FAILED"
    assert tarmac.systems.clusterfudge.scripts.LaunchStatus.Name(2) == "LAUNCH_STATUS_RUNNING"
    assert tarmac.systems.clusterfudge.scripts.LaunchStatus.LAUNCH_STATUS_QUEUED == 7
    with pytest.raises(ValueError, match="no status 99"):
        tarmac.systems.clusterfudge.scripts.LaunchStatus.Name(99)


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_scripts_are_judged_by_the_signatures_that_there_are(name: str) -> None:
    """C1, C3: what `check` knows of a call is what the class takes."""
    made = getattr(tarmac.systems.clusterfudge.scripts, name)
    parameters = [item for item in inspect.signature(made).parameters.values() if item.name != "self"]
    assert [item.name for item in SIGNATURES[name]] == [item.name for item in parameters]
    for known, there in zip(SIGNATURES[name], parameters, strict=True):
        assert known.required == (there.default is inspect.Parameter.empty)


def test_every_public_name_is_known_to_the_check() -> None:
    public = set(tarmac.systems.clusterfudge.scripts.__all__)
    assert public <= {*SIGNATURES, *OTHER_NAMES}


def test_all_twenty_accelerators_are_slot_types() -> None:
    """C3: h100=2 and so on, by position too."""
    fields = [field.name for field in dataclasses.fields(tarmac.systems.clusterfudge.scripts.Resources)]
    assert fields == ["cpus", "memory_mb", *SLOT_TYPES]
    assert len(SLOT_TYPES) == 20
    assert set(SLOT_TYPES) <= KNOWN
