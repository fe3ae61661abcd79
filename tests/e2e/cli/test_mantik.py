"""Configurations of Mantik on the command line: dry runs, rehearsals, refusals, the words of MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shell import Shell
from tarmac.client import Client

GOOD = Path(__file__).parents[2] / "golden/dialects/mantik/good"
RENDERED = Path(__file__).parents[2] / "golden/launch/sites"
NAMES = sorted(
    path.name for path in GOOD.iterdir() if path.suffix in (".yaml", ".json") and ".spec" not in path.name
)
UNICORE = "UnicoreApiUrl: https://zam2125.zam.kfa-juelich.de:9112/JUWELS/rest/core\n"
FIRECREST = (
    "Firecrest:\n  ApiUrl: https://firecrest.cscs.ch\n  Machine: daint\n"
    "  TokenUrl: https://auth.cscs.ch/auth/realms/firecrest-clients/protocol/openid-connect/token\n"
)
RESOURCES = "Resources: {Queue: batch}\n"
PROJECT = """
name: digits
entry_points:
  main:
    parameters:
      alpha: {type: float, default: 0.5}
    command: "python train.py --alpha {alpha}"
  show:
    parameters: {name: string}
    command: "echo name={name} > said; cat said"
"""
TRAIN = """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "files": sorted(os.listdir(".")), "env": dict(os.environ)}))
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user in the directory of an MLflow project."""
    directory = tmp_path_factory.mktemp("mantik")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    shell.write("MLproject", PROJECT)
    shell.write("train.py", TRAIN)
    yield shell
    shell.close()


def lines(output: str) -> list[str]:
    """The log of a run that was followed, less the names of its workers."""
    return [line.partition("| ")[2] or line for line in output.splitlines()]


def said(output: str) -> dict[str, dict[str, str]]:
    """What the training script was given."""
    found: dict[str, dict[str, str]] = json.loads(
        next(line for line in lines(output) if line.startswith("{"))
    )
    return found


@pytest.fixture(scope="module")
def client(user: Shell) -> Iterator[Client]:
    """The same user in Python: quicker than a command each."""
    user.tarmac("server", "start", code=0)
    with Client(home=user.home) as client:
        yield client


def submission(name: str, user: Shell) -> dict[str, Any]:
    """A configuration of the collection, in the user's project."""
    return {
        "source": (GOOD / name).read_text(encoding="utf-8"),
        "filename": name,
        "directory": user.directory,
        "extras": {"files": {"MLproject": PROJECT}},
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_example_and_snippet_of_the_document_is_shown_by_a_dry_run(
    user: Shell, client: Client, name: str
) -> None:
    """K1 to K9: as the site would be sent it, in YAML and in JSON."""
    sent = submission(name, user)
    answer = client.dry_run(**sent)
    assert answer.placement is None
    by_firecrest = "Firecrest:\n  A" in sent["source"]
    assert str(answer.rendered).startswith("#!/bin/bash -l\n#SBATCH" if by_firecrest else '{\n  "Name"')
    golden = RENDERED / f"{Path(name).stem}.txt"
    if golden.exists():
        assert answer.rendered == golden.read_text(encoding="utf-8")


def test_every_example_and_snippet_of_the_document_is_rehearsed(user: Shell, client: Client) -> None:
    """K1 to K9: what needs the site alone is said, and the run goes on."""
    user.write("venv/bin/activate", "export VIRTUAL_ENV=activated\n")
    runs = {name: client.submit(**submission(name, user), overrides={"rehearse": "4x4"}).id for name in NAMES}
    user.tarmac("wait", *runs.values())
    ended = {run["id"]: run for run in user.json("ls", "--limit", "100")["runs"]}
    failed = {name for name, run in runs.items() if ended[run]["outcome"] != "completed"}
    assert failed == {
        "commands-of-all-kinds.yaml"
    }  # one of its commands is the number 1, which is no program


@pytest.mark.parametrize("name", ["document-example.yaml", "document-example-json.json", "everything.yaml"])
def test_the_examples_of_the_document_are_rehearsed(user: Shell, name: str) -> None:
    """K1 to K8: the same entry point on this machine; what only the site has is said."""
    source = (GOOD / name).read_text(encoding="utf-8")
    nodes, slots = (4, 4) if name.startswith("everything") else (2, 4)
    result = user.tarmac("run", user.write(name, source), "--rehearse", f"{nodes}x{slots}", code=0)
    given = said(result.stdout)
    assert given["argv"] == ["--alpha", "0.5"]
    assert given["env"]["NNODES"] == str(nodes)
    assert given["env"]["NODE_RANK"] == "0"
    assert result.stdout.count('"argv"') == 1  # on the first node alone, as in a batch job


def test_every_variable_on_two_nodes(user: Shell) -> None:
    """K5, K8: any value, srun's rule, the working directory; modules and commands around, in their order."""
    config = (
        UNICORE
        + """
Environment:
  Variables: {TEST_ENV_VAR: "it's a $(test)", ANOTHER_VAR: another value}
  PreRunCommandOnLoginNode: echo login before > order
  PreRunCommandOnComputeNode: [echo node before >> order, export FROM_BEFORE=yes]
  PostRunCommandOnComputeNode: [echo node after >> order]
  PostRunCommandOnLoginNode: [echo login after >> order, cat order]
Resources: {Queue: batch, Nodes: 2, CPUsPerNode: 8, GPUsPerNode: 2}
"""
    )
    result = user.tarmac("run", user.write("all.yaml", config), "--rehearse", "2x4", code=0)
    env = said(result.stdout)["env"]
    assert env["TEST_ENV_VAR"] == "it's a $(test)"
    assert env["ANOTHER_VAR"] == "another value"
    assert env["SRUN_CPUS_PER_TASK"] == "8"
    assert env["FROM_BEFORE"] == "yes"
    assert env["MANTIK_WORKING_DIRECTORY"] == env["PWD"]
    assert (env["NNODES"], env["CUDA_VISIBLE_DEVICES"]) == ("2", "0,1")
    run = user.json("ls")["runs"][0]["id"]
    (setup,) = (user.home / "runs" / run).glob("attempts/1/logs/setup.*.log")
    assert setup.read_text().splitlines()[-4:] == ["login before", "node before", "node after", "login after"]


def test_a_node_count_without_that_many_nodes_is_refused(user: Shell) -> None:
    """K7: two nodes are two nodes, whatever fits on one."""
    config = user.write("two.yaml", UNICORE + "Resources: {Queue: batch, Nodes: 2}\n")
    assert "can never start here" in user.tarmac("run", config, "--rehearse", "1x8", code=2).stderr


def test_what_is_excluded_stays_behind(user: Shell) -> None:
    """K9: with the meaning of .gitignore; what that file itself leaves out comes along."""
    for name in (
        "data.csv",
        "deep/data.csv",
        "a.sif",
        "sub-directory/x",
        "deep/b.png",
        "deep/kept.txt",
        "ignored",
    ):
        user.write(name, "x")
    user.write(".gitignore", "ignored\n")
    config = user.write("exclude.yaml", (GOOD / "exclude.yaml").read_text(encoding="utf-8"))
    user.write(
        "list.py",
        "import os\nfor top, _, names in os.walk('.'):\n  [print('f', os.path.join(top, n)) for n in names]",
    )
    result = user.tarmac("run", config, "--entry-point", "list.py", "--rehearse", "1x1", code=0)
    found = {line.removeprefix("f ./") for line in lines(result.stdout) if line.startswith("f ")}
    assert {"train.py", "deep/kept.txt", "ignored"} <= found
    assert not found & {"data.csv", "deep/data.csv", "a.sif", "sub-directory/x", "deep/b.png"}


def test_an_environment_in_the_project_is_activated(user: Shell) -> None:
    """K3: `source <path>/bin/activate`, of this project."""
    user.write("venv/bin/activate", "export VIRTUAL_ENV=activated\n")
    config = user.write("venv.yaml", UNICORE + "Environment: {Python: venv}\n" + RESOURCES)
    given = said(user.tarmac("run", config, "--rehearse", "1x1", code=0).stdout)
    assert given["env"]["VIRTUAL_ENV"] == "activated"


def test_entry_points_and_parameters_are_those_of_mlflow(user: Shell) -> None:
    """K10: values reach the command as they are; what the entry point does not know goes to its end."""
    config = user.write("k10.yaml", UNICORE + RESOURCES)
    result = user.tarmac(
        *("run", config, "--rehearse", "1x1", "--entry-point", "show", "-P", "name=a b; $(touch no)"), code=0
    )
    assert "name=a b; $(touch no)" in lines(result.stdout)
    given = said(
        user.tarmac("run", config, "--rehearse", "1x1", "-P", "alpha=1", "-P", "extra=9", code=0).stdout
    )
    assert given["argv"] == ["--alpha", "1", "--extra", "9"]
    refused = user.tarmac("run", config, "--entry-point", "show", code=2)
    assert "No value given for missing parameters: 'name'" in refused.stderr


def test_the_application_decides_the_exit_code_and_commands_after_run_anyway(user: Shell) -> None:
    """K6."""
    config = user.write(
        "fails.yaml",
        UNICORE + "Environment: {PostRunCommandOnComputeNode: echo cleaning up}\n" + RESOURCES,
    )
    user.write("fails.py", "raise SystemExit(7)")
    result = user.tarmac("run", config, "--entry-point", "fails.py", "--rehearse", "1x1", code=7)
    assert "cleaning up" in lines(result.stdout)
    assert user.json("ls", "--as", "mantik")["runs"][0]["status"] == "FAILED"
    assert " FAILED " in user.tarmac("ls", "--as", "mantik", code=0).stdout


@pytest.mark.parametrize("name", NAMES)
def test_every_example_and_snippet_of_the_document_passes_a_check(user: Shell, name: str) -> None:
    """K1 to K9; K2: only with the image that it names on this machine."""
    source = (GOOD / name).read_text(encoding="utf-8")
    path = {"image-of-this-machine.yaml": "/opt/images/train.sif"}.get(name)
    image = re.search(r"(?m)(?:Path: |SingularityImage\": \")((?:\.\./|images/)?[a-z-]+\.sif)", source)
    if path is None and image is not None:
        path = image[1]
    config = user.write(name, source)
    checked = user.tarmac("check", config)
    if path is None:
        assert checked.returncode == 0, checked.stderr
        return
    assert checked.returncode == 2
    assert f"{Path(path).name} does not exist, and only a rehearsal starts without it" in checked.stderr
    assert "does not exist" in user.tarmac("run", config, code=2).stderr
    if not path.startswith("/"):
        user.write(path, "image")
        user.tarmac("check", config, code=0)
        (user.directory / path).unlink()


def test_a_site_that_is_no_cluster_is_refused_with_the_command_that_adds_it(user: Shell) -> None:
    """K1, K10: with what can be done instead; nothing is kept."""
    before = len(user.json("ls")["runs"])
    listed = user.tarmac("sites", code=0).stdout.splitlines()
    for config in (UNICORE + RESOURCES, FIRECREST + RESOURCES):
        result = user.tarmac("run", user.write("site.yaml", config), code=2)
        assert "which is none of the clusters here" in result.stderr
        commands = [line.replace("QUEUE", "batch") for line in listed if line.startswith("tarmac clusters")]
        assert any(f"{line} adds it" in result.stderr for line in commands)
        assert (
            "--dry-run shows what the site is sent, --rehearse 1x1 runs it on this machine" in result.stderr
        )
    assert len(user.json("ls")["runs"]) == before


def test_a_configuration_without_a_project_says_so(user: Shell) -> None:
    """K10."""
    config = user.write("elsewhere/backend.yaml", UNICORE + RESOURCES)
    result = user.tarmac("check", config, code=2)
    assert "there is no MLproject file with an entry point 'main'" in result.stderr + result.stdout


def test_known_sites_are_listed_without_a_server(user: Shell) -> None:
    """K1."""
    listed = user.json("sites")["sites"]
    assert UNICORE.split()[1] in {site["unicore_url"] for site in listed}
    assert {"daint"} <= {site["machine"] for site in listed if site["firecrest_api_url"]}
    assert "https://firecrest.cscs.ch" in user.tarmac("sites", code=0).stdout


def test_the_example_does_what_its_page_says(user: Shell) -> None:
    """K4 to K8, K10: every documented variable on two nodes."""
    example = Path(__file__).parents[3] / "examples/24-mantik"
    result = user.tarmac(
        *("run", str(example / "backend.yaml"), "--rehearse", "2x4", "-P", "note=it's $(id)"), code=0
    )
    found = lines(result.stdout)
    page = (Path(__file__).parents[3] / "docs/using/dialects/mantik.md").read_text(encoding="utf-8")
    shown = page[page.index("$ tarmac run examples/24-mantik/backend.yaml --rehearse") :].splitlines()
    promised = [line.removeprefix("main.0| ") for line in shown if line.startswith("main.0| ")]
    stable = [line for line in promised if not line.startswith("MANTIK_WORKING_DIRECTORY")]
    assert [line for line in found if line in stable] == stable
    rendered = user.json("run", str(example / "firecrest.json"), "--dry-run")["rendered"]
    assert rendered in page


def test_hooks_and_modules_of_a_native_run_file(user: Shell) -> None:
    """K4, K6: they are for everybody; without modules a rehearsal says so and goes on."""
    text = """
code: .
slots: 2
nodes: 2
hooks:
  before_login: echo 1 > order
  before: echo 2 >> order
  after: cat order
  after_login: [[test, -f, order]]
environment: {modules: [GCC]}
command: echo worker on $NODE_RANK; echo 3 >> order
"""
    result = user.tarmac("run", user.write("run.yaml", text), "--rehearse", "2x1", code=0)
    assert {"worker on 0", "worker on 1"} <= set(lines(result.stdout))
    assert "there is no command 'module' here; not loaded: GCC" in result.stdout
    run = user.json("ls")["runs"][0]["id"]
    (setup,) = (user.home / "runs" / run).glob("attempts/1/logs/setup.*.log")
    missing = "tarmac: there is no command 'module' here; not loaded: GCC"
    assert setup.read_text().splitlines() == [
        "+ before_login: echo 1 > order",
        *("+ before: echo 2 >> order", missing),
        *("+ after: cat order", missing, "1", "2", "3"),
        "+ after_login: test -f order",
    ]


def test_a_hook_that_fails_ends_the_run(user: Shell) -> None:
    """K6."""
    text = 'command: echo never\nhooks: {before: ["true", exit 3]}\n'
    result = user.tarmac("run", user.write("run.yaml", text), code=3)
    assert "command 2 of the hook before" in result.stderr
    assert "never" not in result.stdout
