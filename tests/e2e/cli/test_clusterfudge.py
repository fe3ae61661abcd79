"""Clusterfudge users: launch scripts as they are, on described and rehearsed clusters (C1 to C10)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gitserver import Repo
from launchscripts import AWAIT_END, in_lab, job, launched, nodes_of, script
from shell import Shell

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/20-clusterfudge"

PRINT = (
    "import os; [print(k, v) for k, v in sorted(os.environ.items()) if k.startswith(('CLUSTERF', 'CUDA_V'))]"
)


@pytest.fixture(scope="module")
def lab(settled: Shell) -> Shell:
    """A user whose server stands for the cluster, in a project with a launch script."""
    return in_lab(settled)


def test_c1_a_script_runs_as_it_is_with_its_own_code(lab: Shell) -> None:
    """C1: code before and after, arguments, output and exit code are the script's own."""
    text = "import sys\nprint('before', sys.argv[1:])\n" + script(
        job(["echo", "hello from the run"]), rest='name="mine", description="what it is for",'
    )
    lab.write("launch.py", text + "print('after')\nsys.exit(3)\n")
    result = lab.tarmac("launch", "launch.py", "--replicas", "2", code=3)
    lines = result.stdout.splitlines()
    assert lines[0] == "before ['--replicas', '2']"
    assert lines[1].startswith("launched ")
    assert lines[2] == "after"
    lab.tarmac("wait", "mine", code=0)
    assert lab.tarmac("logs", "mine", code=0).stdout == "hello from the run\n"
    source = json.loads(lab.tarmac("show", "--source", "mine", code=0).stdout)
    assert source["launch_script_body"].startswith("import sys\nprint('before'")
    shown = lab.tarmac("show", "--as", "clusterfudge", "mine", code=0).stdout
    assert "LAUNCH_STATUS_COMPLETED" in shown
    assert "what it is for" in shown
    assert "LAUNCH_STATUS_COMPLETED" in lab.tarmac("ls", "--as", "clusterfudge", code=0).stdout


def test_c1_the_example_runs_as_its_page_says(lab: Shell) -> None:
    """C1, C2, C7, C9: a script of the documentation's kind, on a rehearsed cluster."""
    result = lab.tarmac("launch", "--rehearse", "2x8", "--follow", str(EXAMPLE / "launch.py"), code=0)
    told = sorted(line.partition("| ")[2] for line in result.stdout.splitlines() if "| " in line)
    assert told == [
        "replica 0 of 1 of watcher, devices none",
        "replica 0 of 2 of trainer, devices 0,1",
        "replica 1 of 2 of trainer, devices 2,3",
    ]
    logs = lab.tarmac("logs", "--as", "clusterfudge", "hello-world-example", code=0).stdout
    assert "watcher.0.0 | replica 0 of 1 of watcher" in logs
    source = json.loads(lab.tarmac("show", "--source", "hello-world-example", code=0).stdout)
    assert source["launch_script_body"] == (EXAMPLE / "launch.py").read_text(encoding="utf-8")


def test_c1_one_changed_line_does_without_tarmac_launch(lab: Shell) -> None:
    """C1: `from tarmac import clusterfudge`, started with Python itself."""
    lab.write("changed.py", script(job(["true"]), imports="from tarmac import clusterfudge"))
    result = subprocess.run(
        [sys.executable, "changed.py"],
        cwd=lab.directory,
        env=lab.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "not to api.clusterfudge.com" in result.stderr
    run = result.stdout.split()[-1]
    lab.tarmac("wait", run, code=0)
    assert lab.json("show", run)["run"]["dialect"] == "clusterfudge"


def test_c1_native_a_run_described_in_python(lab: Shell) -> None:
    """NATIVE C1, C2, C5: roles, processes, replicas, failure behaviour and code, by `import tarmac`."""
    lab.write(
        "native.py",
        """
import tarmac

workers = tarmac.Role(
    replicas=2,
    on_failure="continue",
    processes=[tarmac.Process(["cat", "told.txt"], tarmac.Resources(slots=1)), tarmac.Process("exit 0")],
)
with tarmac.Client() as client:
    described = tarmac.Run(name="described", roles={"workers": workers}, code=tarmac.LocalDir("code"))
    run = client.launch(described)
    print(run.id, client.wait(run.id).outcome)
""",
    )
    lab.write("code/told.txt", "told\n")
    result = subprocess.run(
        [sys.executable, "native.py"],
        cwd=lab.directory,
        env=lab.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    run, outcome = result.stdout.splitlines()[0].split()
    assert outcome == "completed"
    assert lab.tarmac("logs", run, "--worker", "0", code=0).stdout.count("told\n") == 2


def test_c2_replicas_are_packed_onto_a_node(lab: Shell) -> None:
    """C2: two accelerators a replica and eight on a node: four replicas are on it."""
    _, run = launched(
        lab, script(job(["true"], replicas=4, resources="h100=2"), rest='cluster="primary",'), "--follow"
    )
    placements = lab.json("show", run)["attempts"][-1]["placements"]
    assert len({placement["node"] for placement in placements}) == 1
    assert sorted(slot for placement in placements for slot in placement["slots"]) == list(range(8))


@pytest.mark.heavy
def test_c3_a_launch_that_asks_for_nothing_runs_beside_a_full_node(lab: Shell) -> None:
    """C3: with resources it has them alone; without, it is placed on one node and counts for nothing."""
    hold = job(["sleep", "600"], replicas=2, resources="h100=8")
    _, holding = launched(lab, script(hold, rest='cluster="primary", name="hold",'))
    try:
        free = script(job(["true"], replicas=2), rest='cluster="primary", shard="rl",')
        _, run = launched(lab, free, "--follow")
        assert len(nodes_of(lab, run)) == 1
    finally:
        lab.tarmac("stop", "--wait", holding, code=0)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rest", "allowed"),
    [
        ('cluster="primary", shard="rl",', {"h1", "h2"}),
        ('hostnames=["my-pet-node"],', {"my-pet-node"}),
        ('cluster="primary", shard="vision",', {"my-pet-node"}),
    ],
)
def test_c4_cluster_shard_and_hostnames_narrow_the_nodes(lab: Shell, rest: str, allowed: set[str]) -> None:
    """C4: the launch sits where it may."""
    _, run = launched(lab, script(job(["true"]), rest=rest), "--follow")
    assert set(nodes_of(lab, run)) <= allowed


def test_c5_other_replicas_are_stopped_or_continue(lab: Shell) -> None:
    """C5: a failing process ends the others of its job, or leaves them alone; then the slots are free."""
    failing = "clusterfudge.Process(command=['python3', '-c', 'raise SystemExit(7)'])"
    long = "clusterfudge.Process(['sleep', '600'], clusterfudge.Resources(h100=1))"
    stopping = "clusterfudge.OnReplicaFailureOtherReplicasAreStopped()"
    text = script(
        f"clusterfudge.Job('python', 3, [{failing}, {long}], {stopping})", rest='cluster="primary",'
    )
    counted = "print(client.get_launch_details(launch.id).status_counts.jobs[0].replicas)\n"
    result, run = launched(lab, text + AWAIT_END + counted)
    assert re.search(r"pending=0, running=0, succeeded=0, failed=[1-3], .*total=3", result.stdout)
    record = lab.json("show", run)["run"]
    assert (record["outcome"], record["cause"]["exit_code"]) == ("failed", 7)
    assert lab.json("clusters", "show", "primary")["slots_used"] == 0
    short = "clusterfudge.Process(['sh', '-c', 'sleep 0.3; echo done'])"
    _, run = launched(lab, script(f"clusterfudge.Job('python', 1, [{failing}, {short}])"))
    lab.tarmac("wait", run)
    assert lab.tarmac("logs", run, "--worker", "1").stdout == "done\n"


def test_c6_a_git_repository_is_named_with_branch_and_commit(lab: Shell) -> None:
    """C6: as the documentation writes it; a hostile one is refused where the script stands."""
    deployment = (
        'deployment=clusterfudge.GitRepo(repo="https://github.com/clusterfudgeai/examples.git", '
        'branch="main", commit="abcd123"),'
    )
    result, _ = launched(lab, script(job(["true"]), rest=deployment), "--dry-run")
    assert "git: https://github.com/clusterfudgeai/examples.git\n  branch: main\n  commit: abcd123" in (
        result.stdout
    )
    hostile = 'deployment=clusterfudge.GitRepo("ext::sh -c id", "main"),'
    result, _ = launched(lab, script(job(["true"]), rest=hostile), code=1)
    assert result.stderr.startswith(
        "error: launch.py:4: deployment.git_repo.repo: the URL of a git repository"
    )


@pytest.mark.heavy
def test_c6_a_commit_of_a_branch_is_what_runs(shell: Shell, tmp_path: Path) -> None:
    """C6: long or short; details and `show` name the whole commit."""
    shell.home.mkdir()
    (shell.home / "settings.toml").write_text('[git]\ngit_transports = ["file"]\n')
    origin = Repo.new(tmp_path / "origin", hello_py="print('first')")
    first = origin.git("rev-parse", "HEAD")
    origin.commit(hello_py="print('second')")
    after = f"""{AWAIT_END}
details = client.get_launch_details(launch.id)
print(details.logs[0].contents, details.launch.git_branch, details.launch.git_commit)
"""
    for commit in (first, first[:8]):
        deployment = f'deployment=clusterfudge.GitRepo("file://{origin.path}", "main", "{commit}"),'
        text = script(job(["python3", "hello.py"]), rest=deployment, after=after)
        result, _ = launched(shell, text)
        assert result.stdout.endswith(f"first\n main {first}\n")
    shown = shell.tarmac("show", "--as", "clusterfudge", "@last", code=0).stdout
    assert f"file://{origin.path} at {first}" in shown


def test_c7_c8_the_project_lies_in_the_directory_that_processes_start_in(lab: Shell) -> None:
    """C7, C8: the whole project from its root, modes kept, in a fresh directory that stays."""
    lab.write("sub/launch.py", script(job(["./run.sh"]), rest="deployment=clusterfudge.LocalDir(),"))
    program = Path(lab.directory, lab.write("run.sh", "#!/bin/sh\ntouch made\nls -a; pwd\n"))
    program.chmod(0o755)
    lab.write(".gitignore", ".venv\nignored.txt\n")
    lab.write("ignored.txt", "")
    lab.write(".venv/kept", "")
    here = Shell(lab.home, lab.directory / "sub")
    result = here.tarmac("launch", "--follow", "launch.py", code=0)
    assert f"Found {lab.directory}/requirements.txt" in result.stdout
    written = result.stdout.splitlines()
    assert {"run.sh", "requirements.txt", "ignored.txt", ".venv", "sub", "made"} <= set(written)
    assert Path(written[-1], "made").exists(), "the directory stays"
    assert not (lab.directory / "made").exists()


def test_c9_every_variable_on_two_nodes(lab: Shell) -> None:
    """C9: each process finds who it is in the launch, and exactly the devices it was assigned."""
    two = f"""clusterfudge.Process(["python3", "-c", {PRINT!r}], clusterfudge.Resources(h100=2))"""
    text = script(f"clusterfudge.Job('my job', 2, [{two}, {two}])")
    result, run = launched(lab, text, "--rehearse", "2x4", "--follow")
    launch_id = re.findall(r"launched \d+ (\S+)", result.stdout)[0]
    found = {}
    for replica in range(2):
        for worker in range(2):
            choice = ("--replica", str(replica), "--worker", str(worker))
            lines = lab.tarmac("logs", run, *choice).stdout.splitlines()
            found[replica, worker] = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}
    assert len(nodes_of(lab, run)) == 2
    devices = {("0,1", 0), ("2,3", 1)}
    for (replica, worker), variables in found.items():
        assert (variables.pop("CUDA_VISIBLE_DEVICES"), worker) in devices
        assert variables == {
            "CLUSTERFUDGE_LAUNCH_ID": launch_id,
            "CLUSTERFUDGE_JOB_NAME": "my job",
            "CLUSTERFUDGE_REPLICA_INDEX": str(replica),
            "CLUSTERFUDGE_REPLICA_COUNT": "2",
            "CLUSTERFUDGE_PROCESS_COUNT_ACROSS_ALL_REPLICAS": "4",
            "CLUSTERFUDGE_PROCESS_INDEX": str(worker),
            "CLUSTERFUDGE_PROCESS_INDEX_ACROSS_ALL_REPLICAS": str(2 * replica + worker),
            "CLUSTERFUDGE_TASK_ID": str(replica),
        }


@pytest.mark.heavy
def test_c10_without_capacity_it_fails_at_once_or_queues(lab: Shell) -> None:
    """C10: a SchedulingError with the reason of each node, unless the launch is to be queued."""
    rest = 'cluster="primary", shard="rl",'
    full = job(["sleep", "600"], replicas=2, resources="h100=8")
    _, holding = launched(lab, script(full, rest=rest + 'name="hold",'))
    try:
        result, _ = launched(lab, script(job(["true"], resources="h100=1"), rest=rest), code=1)
        assert "error: launch.py:4: failed to schedule launch: " in result.stderr
        assert re.search(r"scheduling log:\n +h1.*, h2.*: 0 of 8 slots free", result.stderr), result.stderr
        caught = "import clusterfudge\n\ntry:\n" + "".join(
            f"    {line}\n" for line in script(job(["true"], resources="h100=1"), rest=rest).splitlines()
        )
        caught += "except clusterfudge.SchedulingError as error:\n    error.prettyprint()\n"
        result, _ = launched(lab, caught)
        assert "Scheduling log:\n---------------\nh1" in result.stdout
        queue = "queueing_behaviour=clusterfudge.QueueingBehaviour(enqueue_if_cluster_busy=True),"
        waiting = script(job(["true"], resources="h100=1"), rest=rest + queue)
        after = "print(clusterfudge.LaunchStatus.Name(launch.status))\nclient.stop_launch(launch.id)\n"
        result, run = launched(lab, waiting + after)
        assert "LAUNCH_STATUS_QUEUED" in result.stdout
        lab.tarmac("wait", run)
        assert lab.json("show", run)["run"]["outcome"] == "stopped"
    finally:
        lab.tarmac("stop", "--wait", holding, code=0)
    never, _ = launched(lab, script(job(["true"], resources="h100=9"), rest=rest), code=1)
    assert "failed to schedule launch: " in never.stderr
    assert "can never start here" in never.stderr
