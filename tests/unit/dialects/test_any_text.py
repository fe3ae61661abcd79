"""Whatever the text and the dialect: a spec that survives a round trip, or InvalidInput. Nothing else."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from examples import examples
from tarmac.dialects.native.fields import ENVIRONMENT, PAUSE, RUN
from tarmac.dialects.native.roles import PROCESS, RESOURCES
from tarmac.dialects.overrides import override
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import DIALECTS, choose, read

GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
NAMES = sorted(dialect.name for dialect in DIALECTS)
WRITTEN = (".yaml", ".yml", ".isc", ".toml", ".json", ".py", "")
"""How run files end; beside those of the golden tests lie the specs they become, and an MLflow project."""

WORDS = sorted({name for table in (RUN, PROCESS, RESOURCES, PAUSE, ENVIRONMENT) for name in table.fields})
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


def good_files(dialect: str) -> list[Path]:
    """The good golden files of a dialect."""
    return [
        path
        for path in sorted((GOLDEN / dialect / "good").glob("*"))
        if path.suffix in WRITTEN
        and path.name != "MLproject"
        and not path.read_text().startswith(('{\n "spec"', '{\n "warnings"'))
    ]


def outcome(source: str, dialect: str | None = None) -> None:
    """Read the text: it becomes a spec that survives a round trip, or is refused with proper problems."""
    try:
        reading = read(source, filename="fuzz.yaml", directory="/home/ada", dialect=dialect)
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


@example({"site": {"\n": None}})
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


ALL_GOOD = [(name, path) for name in NAMES for path in good_files(name)]
"""Every good golden file with its dialect."""

EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 6),
        st.sampled_from(
            ["", "\n", " ", "\t", "- ", ": ", "=", "[", "]", "{", "}", '"', "'", "'''", "#", ",", "0", "-1"]
        )
        | st.sampled_from(
            ["null", "true", "1e400", "~", "9" * 400, "&a", "*a", "<<: ", "\ud800", "\0", "é", "\\"]
        )
        | st.text(max_size=5),
    ),
    min_size=1,
    max_size=6,
)


def test_every_dialect_has_good_files() -> None:
    assert {name for name, _ in ALL_GOOD} == set(NAMES)


@pytest.mark.parametrize(("name", "path"), ALL_GOOD, ids=lambda value: getattr(value, "name", value))
def test_every_good_file_is_taken_by_its_own_dialect(name: str, path: Path) -> None:
    """I3: by its content, whatever the file is called, and in whatever order the dialects are asked."""
    text = path.read_text(encoding="utf-8")
    for filename in (path.name, "run.yaml", "model.isc", "a.json", "launch"):
        for order in (DIALECTS, tuple(reversed(DIALECTS))):
            assert choose(text, filename=filename, dialects=order).name == name, filename


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(50))
@given(text=st.text())
def test_any_text_for_any_dialect(name: str, text: str) -> None:
    outcome(text, name)


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=examples(60, few=10))
@given(data=st.data(), edits=EDITS)
def test_good_files_with_mistakes(
    name: str, data: st.DataObject, edits: list[tuple[float, int, str]]
) -> None:
    """Anything may be put anywhere into a file that was good, and some of it taken away."""
    text = data.draw(st.sampled_from([path for known, path in ALL_GOOD if known == name])).read_text()
    for where, length, piece in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + length :]
    outcome(text, name)
    outcome(text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "a = " + "[" * 50_000,
        "a = " + "{a = " * 20_000,
        '{"jobs": ' * 20_000,
        "{a: " * 50_000,
        "- " * 50_000,
        ".".join("a" * 50_000) + " = 1",
        "[" + ".".join("a" * 50_000) + "]",
        "command = '''" + "x " * 60_000,
        'command = "' + "\\n" * 100_000,
        "gpus = " + "9" * 100_000,
        "".join(f"key{index} = {index}\n" for index in range(5_000)),
        "".join(f"[t{index}]\n" for index in range(5_000)),
        "a = 'x\n" * 10_000,
        "command = '''" + "# \"'" * 15_000 + "'''\nexperiment_name = 'e'\nisc_project_id = 'p'\ngpus = 1",
        "command = '''" + "A=1\n" * 15_000 + "'''\nexperiment_name = 'e'\nisc_project_id = 'p'\ngpus = 1",
        "\0" * 100_000,
        "x = 1\n" * 10_000,
        "def f():\n  " * 5_000,
        "(" * 50_000,
    ],
    ids=lambda text: f"{text[:16]!r}",
)
def test_hostile_texts_for_any_dialect(name: str, text: str) -> None:
    began = time.process_time()
    outcome(text, name)
    if name == "native":
        outcome(text)
    assert time.process_time() - began < 10.0


@pytest.mark.parametrize("where", ['"parameters": {"a": "%s"}', '"labels": {"a": "%s"}', '"name": "%s"'])
def test_characters_that_json_writes_in_halves_are_whole(where: str) -> None:
    """What `json.dumps` makes of an emoji is one character; half of one is no text at all."""
    text = '{"command": "echo", %s}'
    if "name" not in where:
        read_back = read(text % where % r"\ud83d\ude00", filename="a.json", directory="/", dialect="native")
        assert "😀" in json.dumps(encode(read_back.spec), ensure_ascii=False)
    with pytest.raises(InvalidInput, match="half of a surrogate pair"):
        read(text % where % r"\ud83d", filename="a.json", directory="/", dialect="native")
