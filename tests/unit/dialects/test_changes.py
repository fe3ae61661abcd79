"""`--set PATH=VALUE`: fields of a run file changed before it is checked, mistakes said at the change."""

from __future__ import annotations

import pytest

from tarmac.dialects.dialect import Extras
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.systems.registry import changed, read

FILE = """\
name: digits
command: python train.py
resources: {cpus: 2}
env: {LR: 0.10}
setup: [make data, make more]
"""

MCLI = """\
name: hello
compute: {gpus: 2}
command: echo hello
image: docker.io/x
"""


def spec_of(text: str, *changes: tuple[str, str], code: str = "/work") -> RunSpec:
    return read(text, filename="run.yaml", directory=code, extras=Extras(changes=changes)).spec


def problems_of(*changes: tuple[str, str], text: str = FILE) -> list[Problem]:
    with pytest.raises(InvalidInput) as refusal:
        spec_of(text, *changes)
    return list(refusal.value.problems)


def test_values_are_yaml_and_parts_that_are_missing_are_made() -> None:
    spec = spec_of(
        FILE,
        ("resources.cpus", "4"),
        ("env.LR", "0.5"),
        ("env.NEW", "'007'"),
        ("pause.grace", "5m"),
        ("labels", "{team: vision}"),
        ("command", "[python, other.py]"),
    )
    assert spec.roles[0].processes[0].resources.cpus == 4
    assert spec.environment.variables == {"LR": "0.5", "NEW": "007"}
    assert (spec.pause.grace_s, spec.labels) == (300, {"team": "vision"})
    assert spec.roles[0].processes[0].command.argv == ("python", "other.py")


def test_a_number_is_a_place_in_a_list_and_the_last_change_counts() -> None:
    changes = (("setup.1", "make less"), ("setup.2", "first"), ("setup.2", "make test"))
    assert len(spec_of(FILE, *changes).setup) == 3
    assert "make test" in str(spec_of(FILE, *changes).setup[2])
    assert "make less" in str(spec_of(FILE, *changes).setup[1])


def test_variables_are_found_by_either_of_their_names() -> None:
    written = "command: echo\nenvironment: {variables: {A: one, B: two}}\n"
    assert spec_of(written, ("env.A", "three")).environment.variables == {"A": "three", "B": "two"}
    path = ("environment.variables.LR", "0.5")
    assert spec_of(FILE, path).environment.variables == {"LR": "0.5"}


def test_a_file_that_lacks_something_is_whole_with_it() -> None:
    assert spec_of("name: x\n", ("command", "echo")).roles[0].processes


@pytest.mark.parametrize(
    ("path", "value", "message", "hint"),
    [
        ("slotz", "2", "unknown field 'slotz'", "slots"),
        ("resources.cpu", "2", "unknown field 'cpu'", "cpus"),
        ("priority", "high-ish", "priority", None),
        ("command.x", "1", "'python train.py' stands before 'x'", None),
        ("setup.5", "make", "'5' is no place in a list of 2", "from 0 to 2"),
        ("setup.first", "make", "'first' is no place in a list of 2", None),
        ("setup.²", "make", "'²' is no place in a list of 2", None),
        ("a..b", "1", "no empty part", None),
        ("name", "", "there is no value", None),
        ("labels", "{a: b", "this is not YAML", None),
        ("labels", "!!python/name:os.system x", "tags are not allowed", None),
    ],
)
def test_what_is_wrong_is_said_at_the_change(path: str, value: str, message: str, hint: str | None) -> None:
    (problem,) = problems_of((path, value))
    assert (problem.file, problem.line) == (f"--set {path}", None)
    assert message in problem.message
    assert hint is None or hint in (problem.hint or "")


def test_mistakes_of_the_file_keep_their_lines() -> None:
    found = problems_of(("slotz", "2"), text=FILE + "nmae: x\n")
    assert {(problem.file, problem.line) for problem in found} == {("--set slotz", None), ("run.yaml", 6)}


def test_a_file_of_another_system_is_changed_by_the_paths_of_a_native_one() -> None:
    before = spec_of(MCLI)
    after = spec_of(MCLI, ("env.LR", "0.5"), ("priority", "2"))
    assert after.dialect == before.dialect == "mcli"
    assert after == replace(
        before,
        priority=2,
        environment=replace(before.environment, variables={**before.environment.variables, "LR": "0.5"}),
    )


def test_a_run_keeps_what_no_file_says() -> None:
    before = spec_of(FILE + "code: .\n")
    assert isinstance(before.code, LocalDirectory)
    before = replace(
        before,
        code=replace(before.code, digest="abc"),
        environment=replace(before.environment, inherited={"PATH": "/bin"}),
    )
    assert changed(before, [("retries", "3")]) == replace(before, retries=3)
    assert changed(before, [("code", "/other")]).code == LocalDirectory(path="/other")
    with pytest.raises(InvalidInput, match="retries"):
        changed(before, [("retries", "many")])
