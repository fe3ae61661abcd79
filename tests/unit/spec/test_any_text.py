"""Whatever the text: a spec that survives a round trip, or InvalidInput. Never anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.spec import override, read
from tarmac.spec.native.fields import ENVIRONMENT, PAUSE, PROCESS, RESOURCES, ROLE, RUN

WORDS = sorted(
    RUN.known | RUN.later | PROCESS.known | RESOURCES.known | PAUSE.known | ENVIRONMENT.known | ROLE.known
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["2x1", "h100:8", "90s", "16GiB", "echo hello", "SIGTERM", ".", "0", "", "~", "a-b"]),
    st.text(max_size=20),
)
TREES = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=10), inner, max_size=5)
    ),
    max_leaves=20,
)
FILES = st.dictionaries(st.sampled_from(WORDS), TREES, max_size=8)
MARKS = r"""[ ] { } , & * ! | > - ? : # ' " \ @ ` ~ << --- ... !!int %YAML &a *a |- >+ 1:30 0x1F \U00110000"""
PIECES = st.lists(
    st.sampled_from(
        [*WORDS, *MARKS.split(), *" \n\t\0\x85\u2028\ufeff\ud800é", ": ", ":\n", "\n  ", "- ", "\r\n"]
    ),
    max_size=30,
).map("".join)


def outcome(source: str) -> None:
    """Read the text: it becomes a spec that survives a round trip, or is refused with proper problems."""
    try:
        reading = read(source, filename="fuzz.yaml", directory="/home/ada")
    except InvalidInput as refusal:
        problems = refusal.problems
    else:
        stored = json.dumps(encode(reading.spec)).encode()
        assert decode(RunSpec, json.loads(stored)) == reading.spec
        assert reading.spec.roles
        return
    assert problems
    assert all(problem.file == "fuzz.yaml" and problem.message for problem in problems)
    assert all((problem.line or 1) >= 1 and (problem.column or 1) >= 1 for problem in problems)
    assert all(str(problem).isprintable() for problem in problems)


@given(st.text())
def test_any_text(source: str) -> None:
    outcome(source)


@given(PIECES)
def test_anything_that_looks_like_yaml(source: str) -> None:
    outcome(source)
    outcome(f"command: {source}")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(FILES)
def test_any_tree_of_fields(tree: dict[str, Any]) -> None:
    outcome(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False))
    outcome(yaml.safe_dump({**tree, "command": "echo"}, default_flow_style=True))


@given(st.dictionaries(st.sampled_from([*WORDS, "slotz"]), TREES, max_size=5))
def test_any_overrides(overrides: dict[str, Any]) -> None:
    spec = read("command: echo", filename="a.yaml", directory="/").spec
    try:
        changed = override(spec, overrides)
    except InvalidInput:
        return
    assert decode(RunSpec, json.loads(json.dumps(encode(changed)))) == changed


@pytest.mark.parametrize(
    "source",
    [
        "[" * 100_000,
        "{a: " * 50_000,
        "- " * 50_000,
        "a:\n" * 50_000,
        '"\\U00110000"',
        '"\\UFFFFFFFF"',
        "%YAML 9999999999999999999999.1\n---\ncommand: a",
        "%TAG ! !\n%TAG ! !\n---\na: 1",
        "command: " + "9" * 10_000,
        "slots: " + "9" * 10_000 + "\ncommand: a",
        "time_limit: " + "9" * 10_000 + "s\ncommand: a",
        "x" * (1 << 18),
        "x" * ((1 << 18) + 1),
        "\ufeffcommand: echo",
        "command: \ud800",
        'env: {A: "\\ud800"}\ncommand: a',
        'command: "a\\0b"',
        "".join(f"key{index}: 1\n" for index in range(5_000)),
    ],
    ids=lambda source: f"{source[:20]!r}",
)
def test_hostile_texts_are_refused_or_read_but_quickly(source: str) -> None:
    outcome(source)
