"""What the files of tests/golden/dialects/mantik do not show: MLflow projects, words, detection, any text."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from tarmac.dialects.dialect import Certainty, Extras, Report
from tarmac.dialects.overrides import override
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import RUN_OUTCOMES, Outcome
from tarmac.model.spec import RunSpec
from tarmac.node.files.secrecy import names_secret
from tarmac.systems.mantik.dialect import MANTIK
from tarmac.systems.mantik.environment import APPTAINER, ENVIRONMENT
from tarmac.systems.mantik.mlproject import ENTRY_POINT, PROJECT
from tarmac.systems.mantik.reader import CONFIG, FIRECREST
from tarmac.systems.mantik.resources import RESOURCES

PAGE = Path(__file__).parents[3] / "docs/using/dialects/mantik.md"
CONFIGURATION = "UnicoreApiUrl: https://site.example/rest/core\nResources: {Queue: batch}\n"


def project(parameters: str, command: str) -> str:
    return f"entry_points:\n  main:\n    parameters: {parameters}\n    command: {json.dumps(command)}\n"


def command_of(
    source: str | None, *, entry_point: str | None = None, **parameters: str
) -> tuple[str, tuple[str, ...]]:
    """The command that a project comes to, and the warnings."""
    extras = Extras(
        files=(("mlProject", source),) if source is not None else (),
        entry_point=entry_point,
        parameters=tuple(parameters.items()),
    )
    reading = MANTIK.read(CONFIGURATION, filename="backend.yaml", directory="/p", extras=extras)
    return str(reading.spec.roles[0].processes[0].command), reading.warnings


@pytest.mark.parametrize(
    ("parameters", "command", "given", "expected"),
    [
        ("{a: float}", "python t.py {a}", {"a": "0.5"}, "python t.py 0.5"),
        ("{a: {type: float, default: 0.10}}", "python t.py {a}", {}, "python t.py 0.10"),
        ("{a: {default: x}}", "python t.py {a}", {"a": "y"}, "python t.py y"),
        ("{a: string}", "python t.py {a}", {"a": "a b; rm -rf x"}, "python t.py 'a b; rm -rf x'"),
        ("{a: string}", "python t.py -a {a}\n  --b 1", {"a": "x"}, "python t.py -a x   --b 1"),
        ("{d: path, u: uri}", "t {d} {u}", {"d": "data", "u": "s3://b/k"}, "t data s3://b/k"),
        ("{}", "python t.py", {"extra": "9", "s p": "x y"}, "python t.py --extra 9 '--s p' 'x y'"),
        ("{}", "echo ${{HOME}} {{x}}", {}, "echo ${HOME} {x}"),
    ],
)
def test_an_entry_point_is_a_command(
    parameters: str, command: str, given: dict[str, str], expected: str
) -> None:
    """K10: as MLflow makes it, values quoted for the shell."""
    assert command_of(project(parameters, command), **given)[0] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train.py", "python train.py"),
        ("jobs/a b.sh", "bash 'jobs/a b.sh'"),
        ("./train.py", "python train.py"),
    ],
)
def test_any_script_of_the_project_is_an_entry_point(name: str, expected: str) -> None:
    """K10: with and without an MLproject file."""
    assert command_of(None, entry_point=name)[0] == expected
    assert command_of(project("{}", "echo"), entry_point=name, a="1")[0] == f"{expected} --a 1"


@pytest.mark.parametrize(
    ("source", "entry_point", "given", "message"),
    [
        (None, None, {}, "backend.yaml: nothing says what to run"),
        (None, "../train.py", {}, "nothing says what to run"),
        (None, "/bin/x.sh", {}, "nothing says what to run"),
        (project("{}", "echo"), "mian", {}, "there is no entry point 'mian' (did you mean 'main'?"),
        ("name: x", None, {}, "there is no entry point 'main' (there are: none"),
        (project("{a: float, b: string}", "t {a} {b}"), None, {}, "missing parameters: 'a', 'b'"),
        (
            project("{a: float}", "t {A}"),
            None,
            {"a": "1"},
            "4:14: entry_points.main.command: '{A}' names no parameter",
        ),
        (project("{}", "t ${SLURM_STEP_GPUS: -1}"), None, {}, "write ${{SLURM_STEP_GPUS: -1}}"),
        (
            project("{a: string}", "t {a.b} {a!r} {a:>9} {} {0}"),
            None,
            {"a": "1"},
            "'{a!r}' names no parameter",
        ),
        (project("{}", "t }"), None, {}, "a single brace in it belongs to no parameter"),
        (project("{}", "t {"), None, {}, "a single brace in it belongs to no parameter"),
        (project("[]", "t"), None, {}, "a mapping from names to parameters is expected"),
        ("entry_points: {main: {comand: t}}", None, {}, "did you mean 'command'?"),
        ("entry_points: {main: {}}", None, {}, "mlProject:1:22: entry_points.main: 'command' is missing"),
        ("entry_points: {main: {command: ' '}}", None, {}, "the command of entry point 'main' is empty"),
        ("entry_points: [main]", None, {}, "a mapping from names to entry points is expected"),
        ("conda_env: a\npython_env: b\nentry_points: {main: {command: t}}", None, {}, "only one environment"),
        ("- a", None, {}, "mlProject:1:1"),
        ("a: [", None, {}, "this is not YAML"),
        ("", None, {}, "the file is empty"),
    ],
)
def test_a_project_that_cannot_run_is_refused(
    source: str | None, entry_point: str | None, given: dict[str, str], message: str
) -> None:
    """K10: in the file where it stands, with what to do."""
    with pytest.raises(InvalidInput) as caught:
        command_of(source, entry_point=entry_point, **given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "warning"),
    [
        ("conda_env: conda.yaml\n" + project("{}", "t"), "no environment is made from this"),
        (project("{a: {type: tensor, default: 1}}", "t {a}"), "types are string, float, path, uri"),
        (project("{a: {default: 1}}", "t"), "the parameter 'a' has no place in the command"),
        (project("{a: {default: 1}}", "t '{a}'"), "values are quoted already"),
        ("colour: blue\n" + project("{}", "t"), "there is no such key; it is ignored"),
    ],
)
def test_what_is_lost_of_a_project_is_said(source: str, warning: str) -> None:
    """K10."""
    assert warning in " ".join(command_of(source)[1])


@pytest.mark.parametrize("kind", ["int", "str", "bool", "Integer", "list[float]", "string", "uri"])
def test_types_that_other_tools_have_are_no_news(kind: str) -> None:
    """K10: their values are text either way, as in MLflow."""
    command, warnings = command_of(project(f"{{a: {{type: '{kind}', default: 1.}}}}", "t {a}"))
    assert (command, warnings) == ("t 1.", ())


def test_descriptions_of_parameters_are_no_news() -> None:
    """K10: projects describe what their parameters are for; nothing is lost without that."""
    source = project("{a: {description: steps to run, default: all}}", "t {a}") + "description: digits\n"
    assert command_of(source) == ("t all", ())


def test_a_backslash_at_the_end_of_a_line_only_continues_the_command() -> None:
    """K10: as a shell has it; a folded text keeps the breaks before lines that are indented further."""
    lines = "python train.py \\\n        -a 1 \\\n        -b 'x\\\\'\n"
    source = f"entry_points:\n  main:\n    command: >\n      {lines}"
    command, _ = command_of(source)
    assert shlex.split(command) == ["python", "train.py", "-a", "1", "-b", "x\\\\"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_any_parameter_is_one_word_of_the_command(value: str) -> None:
    """K10."""
    command, _ = command_of(project("{a: string}", "t {a}"), a=value, b=value)
    assert shlex.split(command) == ["t", value, "--b", value]


def test_every_state_has_a_word_of_mlflow() -> None:
    """K10: SCHEDULED, RUNNING, FINISHED, FAILED, KILLED."""
    found = {MANTIK.status(Report(state=state)) for state in RunState if state is not RunState.ENDED}
    assert found == {"SCHEDULED", "RUNNING"}
    ended = {
        outcome: MANTIK.status(Report(state=RunState.ENDED, outcome=outcome)) for outcome in RUN_OUTCOMES
    }
    assert ended == {Outcome.COMPLETED: "FINISHED", Outcome.FAILED: "FAILED", Outcome.STOPPED: "KILLED"}


@pytest.mark.parametrize(
    ("text", "certainty"),
    [
        (CONFIGURATION, Certainty.CERTAIN),
        ('{"Resources": {"Queue": "batch"}}', Certainty.CERTAIN),
        ("unicoreapiurl: x\nresources: {queue: batch}", Certainty.CERTAIN),
        ("Firecrest: {}", Certainty.POSSIBLE),
        ("ApiUrl: x", Certainty.POSSIBLE),
        ("resources: {slots: 1}\ncommand: echo", None),
        ("name: x\nenvironment: {}", None),
        ("just words", None),
        ("[", None),
    ],
)
def test_a_configuration_is_known_by_its_keys(text: str, certainty: Certainty | None) -> None:
    """K1."""
    found = MANTIK.detect("run.yaml", text)
    assert found is certainty if certainty is not None else isinstance(found, Problem)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("WANDB_API_KEY", True),
        ("MLFLOW_TRACKING_PASSWORD", True),
        ("clientSecret", True),
        ("HF_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("PAD_TOKEN", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("MONKEY", False),
        ("Queue", False),
    ],
)
def test_names_of_secrets_are_known(name: str, expected: bool) -> None:
    assert names_secret(name) is expected


WORDS = sorted(
    CONFIG[False].fields.keys()
    | FIRECREST.fields.keys()
    | ENVIRONMENT[False].fields.keys()
    | APPTAINER.fields.keys()
    | RESOURCES[False].fields.keys()
    | PROJECT.fields.keys()
    | ENTRY_POINT.fields.keys()
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(
        ["12h", "12GiB", "batch", "https://a.b", "image.sif", "--nv", "echo", "main", "~", "$A", "{a}"]
    ),
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


def outcome(source: str, beside: str) -> None:
    """Read the texts: they become a spec that survives a round trip, or are refused with proper problems."""
    extras = Extras(files=(("MLproject", beside),), parameters=(("a", "1"),))
    MANTIK.detect("fuzz.yaml", source)
    try:
        spec = MANTIK.read(source, filename="fuzz.yaml", directory="/home/ada", extras=extras).spec
    except InvalidInput as refusal:
        problems = refusal.problems
    else:
        assert decode(RunSpec, json.loads(json.dumps(encode(spec)))) == spec
        return
    assert problems
    assert all(str(problem).isprintable() and problem.file for problem in problems)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(150))
@given(st.dictionaries(st.sampled_from(WORDS), TREES, max_size=6), TREES)
def test_any_tree_of_keys(tree: dict[str, Any], beside: Any) -> None:
    outcome(json.dumps(tree), project("{}", "t"))
    outcome(CONFIGURATION, json.dumps(beside))
    outcome(CONFIGURATION, json.dumps({"entry_points": {"main": beside}}))


@settings(max_examples=examples(100))
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts(source: str, beside: str) -> None:
    outcome(source, beside)
    outcome(CONFIGURATION, beside)
    outcome(
        CONFIGURATION, project("{a: string}", beside.replace("\ud800", "")) if beside.isprintable() else ""
    )


@pytest.mark.parametrize(
    ("overrides", "nodes", "each"),
    [({"slots": 8}, 2, 4), ({"slots": 8, "nodes": 4}, 4, 2), ({"nodes": 1}, 1, 4), ({"slots": 2}, 2, 1)],
)
def test_a_site_is_asked_for_what_the_command_line_says(
    overrides: dict[str, int], nodes: int, each: int
) -> None:
    """K7: what is changed there is never lost on the way."""
    text = "UnicoreApiUrl: https://a.b\nResources: {Queue: q, Nodes: 2, GPUsPerNode: 2}\n"
    extras = Extras(entry_point="train.py")
    spec = MANTIK.read(text, filename="b.yaml", directory="/p", extras=extras).spec
    changed = override(spec, overrides)
    assert changed.site is not None
    assert (changed.site.nodes, changed.site.slots_per_node) == (nodes, each)
    assert (changed.roles[0].nodes, changed.roles[0].slots) == (nodes, nodes * each)
    with pytest.raises(InvalidInput, match="5 slots cannot be split equally over 2 nodes"):
        override(spec, {"slots": 5})
