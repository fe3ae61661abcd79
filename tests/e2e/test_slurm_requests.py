"""What files of every kind ask for, on a real Slurm: sites, dialects, pools, the reasons why a job waits."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell import Shell
from slurm_clusters import Missing, running_slurm

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-requests")]

EXAMPLES = Path(__file__).parents[2] / "examples"
PARTITIONS = "PartitionName=short Nodes=n1 MaxTime=5 MaxNodes=1 State=UP"
POOLS = {"all": "batch", "short": "short", "wrong": "absent"}
IMAGE = r"""
UnicoreApiUrl: https://site.example.org/rest/core
Environment:
  Apptainer: {Path: image.sif, Options: [--nv, "-B $MINE/data:/data"]}
  Modules: [GCC, CUDA/12.1]
  Variables: {MINE: /a b}
  PreRunCommandOnLoginNode: cp -r . ../copy
  PreRunCommandOnComputeNode: ['mkdir bin && mv apptainer bin', 'export PATH="$PWD/bin:$PATH" FROM_BEFORE=1']
  PostRunCommandOnComputeNode: [echo after]
  PostRunCommandOnLoginNode: rm -r ../copy
Resources: {Queue: elsewhere, Nodes: 2, CPUsPerNode: 2, Runtime: 5m, MemoryPerNode: 100MiB}
Exclude: ["*.out"]
"""
PYTHON = r"""
Firecrest: {ApiUrl: "https://a.b", TokenUrl: "https://a.b/t", Machine: m}
Environment: {Python: venv}
Resources: {Queue: short}
"""
PROJECT = 'entry_points: {main: {command: "python3 say.py ${{SLURM_PROCID}}"}}'
SAY = """
import json, os, sys
names = ("LOADED", "FROM_BEFORE", "SRUN_CPUS_PER_TASK", "SLURM_NNODES", "SLURM_JOB_PARTITION", "MINE")
env = {name: os.environ.get(name) for name in names}
env |= {"image": os.environ.get("IMAGE"), "left": os.path.exists("left.out")}
print(json.dumps({"argv": sys.argv[1:], **env}), flush=True)
"""
APPTAINER = """#!/bin/bash
while [ "$1" != image.sif ]; do echo "apptainer: $1"; shift; done
shift
IMAGE=1 exec "$@"
"""
MODULE = 'module() { [ "$1" = load ] && export LOADED="${LOADED:+$LOADED }$2"; }\n'
ACTIVATE = "export FROM_BEFORE=venv\n"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Slurm of two nodes of four processors; its SLURM_CONF."""
    try:
        directory = tmp_path_factory.mktemp("cluster") / "slurm"
        with running_slurm(directory, cpus_per_node=4, lines=PARTITIONS) as variables:
            yield variables["SLURM_CONF"]
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def site(shell: Shell, slurm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That Slurm as the cluster `site` of a user whose login shells have modules; where its runs lie."""
    home = tmp_path / "user"
    home.mkdir()
    (home / ".bash_profile").write_text(MODULE)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SLURM_CONF", slurm)
    monkeypatch.delenv("TMPDIR", raising=False)
    settings = [f"--set=pools.{pool}.partition={name}" for pool, name in POOLS.items()]
    directory = f"--set=directory={tmp_path / 'shared'}"
    shell.tarmac("clusters", "add", "site", "--engine=slurm", directory, *settings, code=0)
    return tmp_path / "shared"


def lines_of(shell: Shell, run: str) -> list[str]:
    """What its first worker wrote, and what its steps did."""
    return [line.partition("| ")[2] or line for line in shell.tarmac("logs", run, code=0).stdout.splitlines()]


def told(lines: list[str]) -> list[dict[str, object]]:
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return sorted(found, key=lambda task: str(task["argv"]))


def test_files_written_for_sites_run_there(shell: Shell, site: Path) -> None:
    """K2 to K9: one task on each node, the steps around once and in their order, what is excluded stays."""
    data = site.parent / "a b" / "data"
    data.mkdir(parents=True)
    asked = IMAGE.replace("/a b", str(data.parent))
    for name, text in {
        **{"say.py": SAY, "MLproject": PROJECT, "left.out": "", "image.sif": "", "apptainer": APPTAINER},
        **{"venv/bin/activate": ACTIVATE, "image.yaml": asked, "python.yaml": PYTHON},
    }.items():
        shell.write(name, text)
    (shell.directory / "apptainer").chmod(0o755)
    image = shell.tarmac("run", "image.yaml", "--cluster", "site", "--name", "image")
    assert image.returncode == 0, (image.stderr, shell.tarmac("show", "image").stdout)
    assert "queue 'elsewhere' is none of cluster site: it goes to 'batch'" in image.stderr
    lines = lines_of(shell, "image")
    assert told(lines) == [
        {"argv": [task], "image": "1", "LOADED": "GCC CUDA/12.1", "FROM_BEFORE": "1", "left": False}
        | {
            "SRUN_CPUS_PER_TASK": "2",
            "SLURM_NNODES": "2",
            "SLURM_JOB_PARTITION": "batch",
            "MINE": str(data.parent),
        }
        for task in ("0", "1")
    ]
    assert lines.count(f"apptainer: {data}:/data") == 2
    assert lines.count("after") == 1
    data.rmdir()
    without = shell.tarmac("run", "image.yaml", "--cluster", "site")
    assert without.returncode == 1
    assert "tarmac: cannot bind $MINE/data to /data on " in without.stderr + without.stdout
    dry = shell.tarmac("run", "python.yaml", "--cluster", "site", "--dry-run", code=0)
    assert "#SBATCH --partition=short\n" in dry.stdout

    python = shell.tarmac("run", "python.yaml", "--cluster", "site", "--name", "python")
    assert python.returncode == 0, (python.stderr, shell.tarmac("show", "python").stdout)
    (task,) = told(lines_of(shell, "python"))
    assert (task["FROM_BEFORE"], task["SLURM_JOB_PARTITION"], task["SLURM_NNODES"]) == ("venv", "short", "1")


WHERE = "name: where\ncluster: site\nslots: 1\ncommand: echo on $SLURMD_NODENAME\n"


def test_a_run_gets_the_nodes_that_it_names_and_none_that_it_keeps_away_from(
    shell: Shell, site: Path
) -> None:
    assert site
    shell.write("where.yaml", WHERE)
    for name, option in (
        ("named", "hostnames=n2"),
        ("other", "exclude_hostnames=n1"),
        ("any", "hostnames=[n1, n2]"),
    ):
        shell.tarmac("run", "where.yaml", "--name", name, "--set", option, code=0)
        nodes = shell.json("show", name)["attempts"][-1]["nodes"]
        assert nodes == ["n2"] or (name == "any" and nodes == ["n1"])
    for option in ("hostnames=[n1, n22]", "exclude_hostnames=n22"):
        refused = shell.tarmac("run", "where.yaml", "--set", option)
        assert refused.returncode == 2
        assert "cluster site has no node 'n22'" in refused.stderr
        assert "did you mean n2? it has n1, n2" in refused.stderr


ROLES = """name: roles
roles:
  learner:
    slots: 4
    command: &say 'echo "$TARMAC_ROLE is $NODE_RANK of $NNODES, meets at $MASTER_ADDR:$MASTER_PORT"'
  actor: {slots: 1, command: *say}
"""


def test_roles_on_different_nodes_are_one_heterogeneous_job(shell: Shell, site: Path) -> None:
    """Several roles are the components of one job; its id is that of all of them, and ends them together."""
    assert site
    ran = shell.tarmac("run", shell.write("roles.yaml", ROLES), "--cluster", "site")
    assert ran.returncode == 0, (ran.stderr, shell.tarmac("show", "roles").stdout)
    said = [line.rpartition("| ")[2] for line in shell.tarmac("logs", "roles", code=0).stdout.splitlines()]
    places = {line.rpartition(" ")[2] for line in said}
    assert len(places) == 1, "workers of all roles meet at one place"
    assert {line.partition(",")[0] for line in said} == {"learner is 0 of 1", "actor is 0 of 1"}
    attempt = shell.json("show", "roles")["attempts"][-1]
    assert attempt["native"]["id"].isdigit()
    assert set(attempt["nodes"]) == {"n1", "n2"}, attempt
    (path,) = site.glob("runs/*/attempts/1/slurm.sh")
    script = path.read_text()
    first, second = script.split("#SBATCH hetjob\n")
    assert "#SBATCH --cpus-per-task=4\n" in first
    assert "#SBATCH --cpus-per-task=1\n" in second

    lasts = shell.write("lasts.yaml", ROLES.replace("'echo \"", "'sleep 600; echo \""))
    shell.tarmac("run", lasts, "--cluster", "site", "--name", "lasts", "--detach", code=0)
    shell.wait_until("lasts", "running")
    job = shell.json("show", "lasts")["attempts"][-1]["native"]["id"]
    shell.tarmac("stop", "--wait", "lasts", code=0)
    assert shell.json("show", "lasts")["run"]["outcome"] == "stopped"
    left = ["squeue", "--noheader", "--jobs", job, "--format=%T"]
    states = subprocess.run(left, check=True, timeout=30, capture_output=True, text=True).stdout.split()
    assert "PENDING" not in states
    assert "RUNNING" not in states


SAME = """name: same
slots: 8
env: {MINE: "1"}
parameters: {lr: 0.1}
code: .
command: env -0 | sort -z | tr '\\n\\0' ' \\n' | sed "s/^/$NODE_RANK /"
"""
ONLY_HERE = {"GLOO_SOCKET_IFNAME"}
"""All nodes are this machine."""
ONLY_THERE = {"TMPDIR", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_PARTITION", "SLURM_NODEID"}
"""Slurm names a directory for what is temporary, and the job, which has no limit: nobody has to leave."""
DIFFERENT = {
    *("TARMAC_RUN_ID", "TARMAC_RUN_NAME", "MASTER_ADDR", "MASTER_PORT", "PWD", "PYTHONPATH"),
    *("LOG_ARTIFACT_PATH", "TARMAC_PAUSE_FILE", "TARMAC_POLL_FILE", "TARMAC_FINISHED_FILE"),
    *("TARMAC_REPORTS_FILE", "TARMAC_WORLD_FILE"),
}
"""What is called otherwise: the run, where its workers meet, and what lies in the attempt's directory."""


def environments(shell: Shell, run: str) -> list[dict[str, str]]:
    """The environment on each node."""
    found: list[dict[str, str]] = []
    for rank in ("0", "1"):
        text = shell.tarmac("logs", run, "--replica", rank, code=0).stdout
        lines = [line.rpartition("| ")[2].partition(" ")[2].partition("=") for line in text.splitlines()]
        found.append({name: value for name, _, value in lines})
    return found


def test_a_file_finds_the_same_here_and_there(shell: Shell, site: Path) -> None:
    """One run file, unchanged, on this machine and on a Slurm: the whole environment on both nodes."""
    path = shell.write("same.yaml", SAME)
    for cluster, name in ((("--rehearse", "2x4"), "here"), (("--cluster", "site"), "there")):
        done = shell.tarmac("run", path, *cluster, "--name", name)
        assert done.returncode == 0, (done.stderr, shell.tarmac("show", name).stdout)
    for here, there in zip(environments(shell, "here"), environments(shell, "there"), strict=True):
        assert here.keys() - there.keys() == ONLY_HERE
        assert there.keys() - here.keys() == ONLY_THERE
        assert {name for name in here.keys() & there.keys() if here[name] != there[name]} == DIFFERENT
        assert there["LOG_ARTIFACT_PATH"].startswith(str(site))


def test_files_of_other_systems_run_there(shell: Shell, site: Path) -> None:
    """The example of each source document, as it is."""
    assert site
    there = ("--cluster", "site", "--gpu-type", "cpu", "--detach")
    determined = EXAMPLES / "23-determined"
    runs = [
        shell.tarmac("run", str(EXAMPLES / file), *there, *more, code=0).stdout.strip()
        for file, *more in (
            ("21-mcli/variables.yaml", "--slots", "4", "--no-container"),
            ("22-isc/variables.isc", "--mode", "batch", "--slots", "4"),
            ("23-determined/variables.yaml", "--code", str(determined)),
        )
    ]
    script = EXAMPLES / "20-clusterfudge/launch.py"
    launched = shell.tarmac("launch", "--dry-run", str(script), code=0).stdout
    file = shell.write("clusterfudge.yaml", launched.replace("h100", "cpu"))
    started = shell.tarmac("run", file, "--cluster", "site", "--code", str(script.parent), "-d", code=0)
    runs.append(started.stdout.strip())
    for run in runs:
        shell.wait_until(run, "ended")
        shown = shell.json("show", run)["run"]
        assert shown["outcome"] == "completed", shell.tarmac("logs", run).stdout
    mcli, isc, trial, launch = (shell.tarmac("logs", run, code=0).stdout for run in runs)
    assert "MINE=Hello World!" in mcli
    assert "STRONG_EXPERIMENT_NAME=every variable" in isc
    assert "MINE" in trial
    assert launch


def test_a_job_that_never_starts_is_said_to(shell: Shell, site: Path, slurm: str) -> None:
    """What a site asks for and what it says while it waits: in plain words, with what to do."""
    assert site
    check = shell.tarmac("clusters", "check", "site", code=1).stdout
    assert "there is no partition absent; there are batch, short" in check
    assert check.count("a job would be taken") == 2
    pools = [line.split() for line in shell.tarmac("clusters", "show", "site", code=0).stdout.splitlines()]
    assert ["short", "short", "5m", "00s", "1"] in pools
    wrong = shell.tarmac("clusters", "add", "more", "--engine=slurm", "--set=partiton=batch", code=2).stderr
    assert "no setting 'partiton'" in wrong
    assert "did you mean partition?" in wrong
    short = shell.write(
        "short.yaml", "name: short\ncluster: site\npool: short\nslots: 2\ncommand: hostname\n"
    )
    large = shell.tarmac("run", short, "--slots", "8", code=2).stderr
    assert "can never start here" in large
    assert "--pool all could hold it" in large
    shell.tarmac("run", short, "--slurm", "hold", "--name", "held", "--detach", code=0)
    shell.wait_until("held", "submitted")
    shell.until("why", "held", said="never starts as things are")
    why = shell.tarmac("why", "held", code=0).stdout
    assert "somebody holds it back, under your name (JobHeldUser)" in why
    never = "never starts as things are: somebody holds it back, under your name (JobHeldUser)"
    assert never in shell.tarmac("ls", "--columns", "name,why", code=0).stdout
    assert "never: JobHeldUser" in shell.tarmac("queue", code=0).stdout
    job = shell.json("show", "held")["attempts"][-1]["native"]["id"]
    assert f"scontrol release {job} lets it go." in why
    refused = shell.tarmac("clusters", "rm", "site", code=2).stderr
    assert "waits in its queue" in refused
    subprocess.run(["scontrol", "release", job], check=True, timeout=120)
    shell.wait_until("held", "ended")
    assert shell.json("show", "held")["run"]["outcome"] == "completed"
