"""Every example of Mantik's document runs at each kind of site: nothing but its URL and its paths is changed.

Behind firecREST and UNICORE, over a real Slurm of two nodes. `SCRATCH`, modules and Apptainer are stand-ins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mantik_sites import LOGINS, SITES, Place, make_home, mantik_slurm, of_workers
from shell import Shell
from slurm_clusters import Missing

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("mantik-examples"), pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[1] / "golden/dialects/mantik/good"
PROJECT = 'entry_points: {main: {command: "python3 say.py"}}'
SAY = """
# srun keeps a line together if it is shorter than 1 KiB.
import json, os, subprocess
from pathlib import Path
names = ("TEST_ENV_VAR", "ANOTHER_VAR", "VIRTUAL_ENV", "LOADED", "SRUN_CPUS_PER_TASK")
said = {name: os.environ[name] for name in names if name in os.environ}
endings = (".yaml", ".json")  # those of other examples
said["files"] = [str(each) for each in Path(".").rglob("*") if each.is_file() and each.suffix not in endings]
job = ["scontrol", "show", "job", "-d", os.environ["SLURM_JOB_ID"]]
words = subprocess.run(job, capture_output=True, text=True, check=True).stdout.split()
shown = ("NumNodes", "Partition", "Account", "TimeLimit", "Features", "CPUs/Task", "MinMemoryNode")
said["job"] = " ".join(word for word in words if word.partition("=")[0] in shown)
print("said", json.dumps(said), flush=True)
"""
FILES = {
    "MLproject": PROJECT,
    "say.py": SAY,
    "image.sif": "an image",
    "another-image.sif": "another",
    "data.csv": "1,2",
    "sub-directory/inside.txt": "1",
    "figures/deep/loss.png": "a picture",
    "venv/bin/activate": 'export VIRTUAL_ENV="the project\'s own"\n',
}
VENV, BIND = "/path/to/venv", "/data:/data"
"""Places at a site that have to be there."""

REMOTE = "/path/on/remote/system/image.sif"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What an example does: Apptainer's line, tasks, variables, and parts of its job; and what stays here."""

    apptainer: str = ""
    tasks: int = 1
    variables: dict[str, str] = field(default_factory=dict)
    job: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


CASES = {
    "document-example.yaml": Expected(
        apptainer="run --nv image.sif",
        tasks=2,
        variables={"TEST_ENV_VAR": "variable value"},
        job=("NumNodes=2", "Partition=batch"),
        excluded=("another-image.sif",),
    ),
    "document-example-json.json": Expected(
        variables={"VIRTUAL_ENV": "remote", "TEST_ENV_VAR": "variable value"},
        job=("NumNodes=2", "Partition=batch"),
        excluded=("image.sif", "another-image.sif"),
    ),
    "unicore.yaml": Expected(job=("NumNodes=1", "Partition=batch", "Account=proj")),
    "firecrest.yaml": Expected(job=("NumNodes=1", "Partition=batch", "Account=proj")),
    "image.yaml": Expected(apptainer="run image.sif"),
    "image-local.yaml": Expected(apptainer="run image.sif"),
    "image-remote.yaml": Expected(apptainer=f"run {REMOTE}"),
    "options-list.yaml": Expected(apptainer=f"run --nv -B HOME/data:/data {REMOTE}"),
    "options-text.yaml": Expected(apptainer=f"run --nv -B HOME/data:/data {REMOTE}"),
    "options-folded.yaml": Expected(apptainer=f"run --nv -B HOME/data:/data {REMOTE}"),
    "options-with-a-variable.yaml": Expected(apptainer="run -B HOME/data:/data HOME/scratch/image.sif"),
    "python-path.yaml": Expected(variables={"VIRTUAL_ENV": "remote"}),
    "python-mapping.yaml": Expected(variables={"VIRTUAL_ENV": "remote"}),
    "python-in-the-project.yaml": Expected(variables={"VIRTUAL_ENV": "the project's own"}),
    "modules.yaml": Expected(variables={"LOADED": "Python/3.9.6 PyTorch/1.8.1-Python-3.8.5"}),
    "variables.yaml": Expected(variables={"TEST_ENV_VAR": "test value", "ANOTHER_VAR": "another value"}),
    "commands.yaml": Expected(),
    "runtime.yaml": Expected(job=("TimeLimit=12:0",)),
    "memory.yaml": Expected(job=("MinMemoryNode=12G",)),
    "constraints.yaml": Expected(job=("Features=gpu",)),
    "exclude.yaml": Expected(
        excluded=(
            *("data.csv", "image.sif", "another-image.sif"),
            *("sub-directory/inside.txt", "figures/deep/loss.png"),
        )
    ),
    "srun-rule.yaml": Expected(variables={"SRUN_CPUS_PER_TASK": "8"}, job=("NumNodes=2", "CPUs/Task=8")),
}
"""Each example by its file; the document's own words are in tests/golden/dialects/mantik."""


@dataclass(frozen=True)
class Site:
    """A site to which every example was submitted."""

    shell: Shell
    place: Place
    home: Path


@pytest.fixture(scope="module", params=SITES)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("examples")
    shell = Shell(directory / "home", directory / "project")
    (directory / "far").mkdir()
    home = make_home(directory / "far")
    (home / "venv/bin").mkdir(parents=True)
    (home / "data").mkdir()
    (home / "venv/bin/activate").write_text("export VIRTUAL_ENV=remote\n")
    try:
        with ExitStack() as closing:
            patch = closing.enter_context(pytest.MonkeyPatch.context())
            slurm = closing.enter_context(mantik_slurm(directory / "slurm", home, cpus_per_node=16))
            for name, value in {**slurm, **LOGINS}.items():
                patch.setenv(name, value)
            patch.delenv("TMPDIR", raising=False)
            for name, text in FILES.items():
                shell.write(name, text)
            made = Site(shell, SITES[request.param](shell, slurm, directory / "shared", closing), home)
            for name in CASES:
                submit(made, name)
            yield made
            shell.close()
    except Missing as missing:
        pytest.skip(str(missing))


def submit(site: Site, name: str) -> None:
    """Submit an example; firecREST has no login node, and the document says so."""
    text = site.place.config((EXAMPLES / name).read_text())
    for documented, here in ((VENV, f"{site.home}/venv"), (BIND, f"{site.home}/data:/data")):
        text = text.replace(f" {documented}", f" {here}").replace(f'"{documented}', f'"{here}')
    if "OnLoginNode" in text and not site.place.has_login_node:
        refused = site.shell.tarmac("check", site.shell.write(name, text), code=2).stderr
        assert "firecREST runs nothing on the login node" in refused
        text = re.sub(r"  PreRunCommandOnLoginNode:\n    - .*\n", "", text)
    site.shell.tarmac("run", site.shell.write(name, text), "--name", name, "--detach", code=0)


def said(log: str) -> list[dict[str, Any]]:
    """What each task of an example printed."""
    lines = of_workers(log).splitlines()
    return [json.loads(line.removeprefix("said ")) for line in lines if line.startswith("said ")]


@pytest.mark.parametrize("name", CASES)
def test_an_example_of_the_document_runs_at_the_site(site: Site, name: str) -> None:
    """K1 to K8."""
    expected, shell = CASES[name], site.shell
    shell.wait_until(name, "ended")
    log = shell.tarmac("logs", name, code=0).stdout
    assert shell.json("show", name)["run"]["outcome"] == "completed", log
    tasks = said(log)
    assert len(tasks) == expected.tasks, log
    for task in tasks:
        assert {each: task.get(each) for each in expected.variables} == expected.variables
        assert [part for part in expected.job if not f" {task['job']}".count(f" {part}")] == []
        assert sorted(set(FILES) - set(task["files"])) == sorted(expected.excluded)
    lines = re.findall(r"apptainer (.*) on (n[12]) in task (\d+)", of_workers(log))
    command = expected.apptainer.replace("HOME", str(site.home))
    assert {words for words, _, _ in lines} == ({f"{command} python3 say.py"} if command else set())
    assert len({node for _, node, _ in lines}) == (expected.tasks if command else 0)


def test_commands_of_the_example_run_around_it(site: Site) -> None:
    """K6: on the login node where there is one, and on the first node."""
    site.shell.wait_until("commands.yaml", "ended")
    log = of_workers(site.shell.tarmac("logs", "commands.yaml", code=0).stdout).splitlines()
    assert log[-2:] == ["running on compute node", "cleaning up"], log
    setup = of_workers(site.shell.tarmac("logs", "commands.yaml", "--role", "setup", code=0).stdout)
    assert ("running on login node" in setup.splitlines()) is site.place.has_login_node
