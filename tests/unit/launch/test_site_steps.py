"""The steps of a batch job, run by a real bash with stand-ins for what only sites have."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from tarmac.launch.batch_script import quoted
from tarmac.launch.site_steps import batch_steps, login_command, rehearsed_steps, site_steps
from tarmac.model.codec import replace
from tarmac.model.site import Apptainer, SiteRequest
from tarmac.model.spec import Command, Environment, Hooks, Process, Role, RunSpec
from tarmac.node.starting import Installation

DIRECTORY = "MANTIK_WORKING_DIRECTORY"

SAY = """#!/usr/bin/env python3
import json, os, sys

names = ("A", "MANTIK_WORKING_DIRECTORY", "FROM_BEFORE", "VIRTUAL_ENV")
print(json.dumps({"argv": sys.argv[1:], "env": {name: os.environ.get(name) for name in names}}))
"""
SRUN = '#!/bin/sh\necho "srun $1"\nexec "$@"\n'
APPTAINER = '#!/bin/sh\nexec say apptainer "$@"\n'
MODULE = '#!/bin/sh\n[ "$2" != missing ] || exit 7\necho "$@"\n'
HOSTILE = [
    "it's",
    'a "b"',
    "$(touch x)",
    "`touch x`",
    "a\nb",
    "#SBATCH --uid=0",
    "\\",
    "ü",
    "",
    " ",
    "*",
    "~",
    "${A}",
]
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30
) | st.sampled_from(HOSTILE)
QUICK = settings(
    max_examples=examples(60, few=8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass(frozen=True)
class Node:
    """A directory to run in, with stand-ins on the PATH."""

    work: Path
    programs: Path

    def run(self, lines: list[str], *, with_site: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the lines in one bash."""
        path = f"{self.programs}:/usr/bin:/bin" if with_site else f"{self.programs / 'plain'}:/usr/bin:/bin"
        return subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            cwd=self.work,
            env={"PATH": path, "HOME": "/home/ada", "PYTHONPATH": Installation("python3").sdk},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    programs = tmp_path / "programs"
    plain = programs / "plain"
    work = tmp_path / "work"
    plain.mkdir(parents=True)
    work.mkdir()
    for place, name, text in (
        (programs, "say", SAY),
        (plain, "say", SAY),
        (programs, "srun", SRUN),
        (programs, "apptainer", APPTAINER),
        (programs, "module", MODULE),
    ):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return Node(work, programs)


def spec(
    script: str = "say main",
    *,
    site: SiteRequest | None = None,
    variables: dict[str, str] | None = None,
    modules: tuple[str, ...] = (),
    before: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
) -> RunSpec:
    """A run for a site."""
    return RunSpec(
        name="r",
        roles=(Role(processes=(Process(command=Command(script=script)),)),),
        site=site or SiteRequest(queue="batch", directory_variable=DIRECTORY),
        environment=Environment(variables=variables or {}, modules=modules),
        hooks=Hooks(
            before=tuple(Command(script=item) for item in before),
            after=tuple(Command(script=item) for item in after),
        ),
    )


def said(output: str) -> list[dict[str, object]]:
    """What `say` printed, call by call."""
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"argv"')]


def test_the_steps_come_in_their_order(node: Node) -> None:
    """K3 to K6: modules, commands before, virtual environment, application, commands after; one shell."""
    (node.work / "venv/bin").mkdir(parents=True)
    (node.work / "venv/bin/activate").write_text("export VIRTUAL_ENV=here; echo activated")
    asked = spec(
        "say main",
        site=SiteRequest(queue="batch", directory_variable=DIRECTORY, venv="venv"),
        variables={"A": "1"},
        modules=("GCC", "Python/3.9.6"),
        before=("echo before; export FROM_BEFORE=$A", "echo second"),
        after=("say after", "echo cleaning up"),
    )
    result = node.run(site_steps(asked))
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if not line.startswith("{")]
    assert lines == ["load GCC", "load Python/3.9.6", "before", "second", "activated", "cleaning up"]
    main, after = said(result.stdout)
    assert main["argv"] == ["main"]
    assert main["env"] == {
        "A": "1",
        "FROM_BEFORE": "1",
        "MANTIK_WORKING_DIRECTORY": str(node.work),
        "VIRTUAL_ENV": "here",
    }
    assert after["env"] == main["env"]


@pytest.mark.parametrize(
    ("asked", "code", "printed"),
    [
        (spec(modules=("missing", "GCC")), 7, []),
        (spec(before=("(exit 3)", "echo second")), 3, []),
        (spec(before=("echo 'never closed",)), 2, []),
        (spec(before=("# nothing",)), 0, ["main"]),
        (spec(before=("false; true",)), 0, ["main"]),
        (spec("exit 4", after=("say a", "say b")), 4, ["a", "b"]),
        (spec("(exit 4)", after=("exit 5", "say b")), 4, ["b"]),
        (spec("say main", after=("exit 5", "exit 6")), 5, ["main"]),
        (spec("say a && exit 9"), 9, ["a"]),
        (spec(site=SiteRequest(queue="q", venv="gone")), 1, []),
    ],
)
def test_what_fails_counts(node: Node, asked: RunSpec, code: int, printed: list[str]) -> None:
    """K6: a step before that fails ends it; those after run whatever the application did, and count too."""
    result = node.run(site_steps(asked))
    assert result.returncode == code, result.stderr
    assert [call["argv"] for call in said(result.stdout)] == [[word] for word in printed]


def test_an_image_is_run_by_srun(node: Node) -> None:
    """K2: `srun apptainer run <options> <image>`, variables in the options expanded in the run."""
    image = Apptainer(path="image.sif", options=("--nv", "-B", "$HOME/my data:/data", "${A}", "$(id)"))
    asked = spec(
        "python main.py --rate 0.5", site=SiteRequest(queue="q", apptainer=image), variables={"A": "x y"}
    )
    assert site_steps(asked)[-1].startswith("srun apptainer run --nv -B ")
    result = node.run(site_steps(asked))
    (call,) = said(result.stdout)
    assert call["argv"] == [
        *("apptainer", "run", "--nv", "-B", "/home/ada/my data:/data", "x y", "$(id)"),
        *("image.sif", "python", "main.py", "--rate", "0.5"),
    ]


def test_what_is_more_than_words_reaches_a_shell_in_the_image(node: Node) -> None:
    """K2: a variable of the entry point is that of each task, and what follows runs in the image too."""
    image = Apptainer(path="/site/$A.sif", remote=True)
    asked = spec(
        "python a.py $SLURM_PROCID && echo 'b c'",
        site=SiteRequest(queue="q", apptainer=image),
        variables={"A": "i"},
    )
    (call,) = said(node.run(site_steps(asked)).stdout)
    assert call["argv"] == [
        *("apptainer", "run", "/site/i.sif", "sh", "-c"),
        "python a.py $SLURM_PROCID && echo 'b c'",
    ]


def test_a_rehearsal_says_what_is_not_here(node: Node) -> None:
    """K2 to K4: on a machine without modules, image or environment of the site the application still runs."""
    image = Apptainer(path="image.sif")
    for site in (SiteRequest(queue="q", apptainer=image), SiteRequest(queue="q", venv="/site/venv")):
        asked = spec("say main", site=site, modules=("GCC",), after=("say after",))
        result = node.run(rehearsed_steps(asked), with_site=False)
        assert result.returncode == 0, result.stderr
        assert [call["argv"] for call in said(result.stdout)] == [["main"], ["after"]]
        assert "there is no command 'module' here; not loaded: GCC" in result.stderr
        assert ("without the image image.sif" in result.stderr) == (site.apptainer is not None)
        assert ("/site/venv is not on this machine" in result.stderr) == (site.venv is not None)


def test_a_rehearsal_uses_what_is_here(node: Node) -> None:
    """K2, K4: without srun, and the image from where it lies on this machine."""
    image = Apptainer(path="image.sif", source="/opt/image.sif")
    asked = spec("python a.py", site=SiteRequest(queue="q", apptainer=image), modules=("GCC",))
    result = node.run(rehearsed_steps(asked))
    assert "load GCC" in result.stdout
    assert [call["argv"] for call in said(result.stdout)] == [
        ["apptainer", "run", "/opt/image.sif", "python", "a.py"]
    ]


def test_a_rehearsal_knows_the_way_back_that_unicore_gives(node: Node) -> None:
    """K6: commands before go elsewhere, and back by the variable that UNICORE sets on its sites."""
    site = SiteRequest(queue="q", unicore_url="https://unicore.example.org/rest/core")
    before = ("cd /", 'cd "$UC_WORKING_DIRECTORY"')
    result = node.run(rehearsed_steps(spec("pwd", site=site, before=before)))
    assert result.stdout.strip() == str(node.work)


@QUICK
@given(TEXTS)
def test_any_value_of_a_variable_survives(node: Node, value: str) -> None:
    """K5."""
    (call,) = said(node.run(site_steps(spec(variables={"A": value}))).stdout)
    assert call["env"] == {
        "A": value,
        "MANTIK_WORKING_DIRECTORY": str(node.work),
        "FROM_BEFORE": None,
        "VIRTUAL_ENV": None,
    }
    assert list(node.work.iterdir()) == []


@QUICK
@given(TEXTS, TEXTS)
def test_any_option_and_any_path_survives(node: Node, option: str, path: str) -> None:
    """K2."""
    image = Apptainer(path=path, options=(option.replace("$", "S"),))
    result = node.run(site_steps(spec("a", site=SiteRequest(queue="q", apptainer=image))))
    (call,) = said(result.stdout)
    assert call["argv"] == ["apptainer", "run", option.replace("$", "S"), path, "a"]


@QUICK
@given(TEXTS, TEXTS)
def test_whatever_a_command_is_the_script_goes_on_or_ends_there(node: Node, text: str, name: str) -> None:
    """K4, K6: neither a command nor the name of a module can swallow what stands after it."""
    asked = spec("say main", modules=(name,), before=(f": {text}\ntrue",), after=("say after",))
    called = [call["argv"] for call in said(node.run(site_steps(asked)).stdout)]
    assert called in ([["main"], ["after"]], [])


def test_commands_of_the_login_node_are_one_line(node: Node) -> None:
    """K6: the next runs only after the last has succeeded."""
    line = login_command(
        [Command(script="echo 1"), Command(script="echo '2\n3'; false"), Command(script="echo 4")]
    )
    assert line is not None
    assert "\n" not in line
    assert node.run([line]).stdout == "1\n2\n3\n"
    assert login_command([]) is None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("batch", "batch"),
        ("gpu&largedata", "gpu&largedata"),
        ("it's", "'it\\'s'"),
        ('a "b" # c', "'a \"b\" # c'"),
        ("a\\b", "'a\\\\b'"),
    ],
)
def test_a_directive_is_one_word_for_slurm(value: str, written: str) -> None:
    """K7: quotes go, a backslash makes any sign plain; what needs neither stands as it is."""
    assert quoted(value) == written


def test_a_bind_without_its_source_fails_a_job_before_its_application(node: Node) -> None:
    """K2: the source is named as the file has it, variables in it are expanded."""
    (node.work / "my data").mkdir()
    binds = ("--nv", "-B", "$HERE/my data:/data", "--bind=$HERE/none:/none,/no such")
    image = Apptainer(path="image.sif", options=binds)
    asked = spec(site=SiteRequest(queue="q", apptainer=image), variables={"HERE": str(node.work)})
    result = node.run(batch_steps(asked))
    assert result.returncode == 1
    assert re.fullmatch(
        r"tarmac: cannot bind \$HERE/none to /none on \S+: no such file or directory\n", result.stderr
    )
    assert said(result.stdout) == []
    (node.work / "none").mkdir()
    assert "cannot bind /no such to /no such on " in node.run(batch_steps(asked)).stderr
    whole = replace(image, options=binds[:3])
    asked = spec(site=SiteRequest(queue="q", apptainer=whole), variables={"HERE": str(node.work)})
    result = node.run(batch_steps(asked))
    assert (result.returncode, result.stderr, len(said(result.stdout))) == (0, "", 1)
