"""Runs of accounts with a system user (N15), on a real server of root: two people, two system users."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import is_running, wait_until
from plain_users import NotPossible, install_tarmac
from shell import Screen
from system_users import SAVES, Lab, Member, as_user, lab, needs_root, two_users, worker_of

pytestmark = [needs_root, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("lab")) as made:
        yield made


def test_n15_a_run_is_its_users_own(settled: Lab) -> None:
    """N15: user, groups and variables are those of the system user; no process gains rights by a program."""
    name = settled.ann.account.pw_name
    said = settled.ann.output(
        "id; grep -E 'Uid|Gid|Groups|CapEff|NoNewPrivs' /proc/self/status; env; stat -c 'mine %U %G' ."
    )
    assert subprocess.run(["id", name], capture_output=True, text=True, check=True).stdout in said
    uid, gid = settled.ann.account.pw_uid, settled.ann.account.pw_gid
    for line in (
        f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}",
        f"Gid:\t{gid}\t{gid}\t{gid}\t{gid}",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        f"HOME=/home/{name}",
        f"USER={name}",
        f"LOGNAME={name}",
        "SHELL=/bin/bash",
        f"mine {name} {name}",
    ):
        assert line in said.splitlines()
    assert str(Path.home()) not in said.replace(f"/home/{name}", "")


def test_n15_steps_hooks_packages_and_sessions_are_the_users(settled: Lab) -> None:
    """N15: whatever a run starts, and whoever opens a session beside it."""
    ann, name = settled.ann, settled.ann.account.pw_name
    ann.write("code/data.txt", "the code\n")
    gate = Path(f"/home/{name}/gate")
    os.mkfifo(gate)
    os.chown(gate, ann.account.pw_uid, ann.account.pw_gid)
    file = ann.write(
        "code/steps.yaml",
        "name: steps\ncode: .\nsetup:\n- echo step $(id -un) > step.txt\n"
        "hooks:\n  before: ['echo hook $(id -un) > hook.txt']\n  after: ['echo after $(id -un)']\n"
        "command: |\n  cat step.txt hook.txt data.txt\n  stat -c '%n %U' *\n"
        '  python3 -c "import sys, tarmac; print(sys.prefix); tarmac.report(1, loss=2.0)"\n'
        f"  read line < {gate}\n",
    )
    run = ann.tarmac("run", file, "--detach", code=0).stdout.split()[0]
    ann.until("logs", run, said="steps.yaml")
    for person in (ann, settled.admin):
        said = person.tarmac(
            "exec", run, "--", "sh", "-c", "id -un; echo $HOME; grep NoNew /proc/self/status"
        ).stdout
        assert said.split() == [name, f"/home/{name}", "NoNewPrivs:", "1"]
    gate.write_text("go on\n")
    ann.wait_until(run, "ended")
    assert ann.json("show", run)["run"]["outcome"] == "completed"
    said = ann.tarmac("logs", run, code=0).stdout
    for words in (
        f"step {name}",
        f"hook {name}",
        "the code",
        f"data.txt {name}",
        f"step.txt {name}",
        "/venv",
    ):
        assert words in said
    assert f"after {name}" in ann.tarmac("logs", run, "--role", "setup", code=0).stdout
    assert ann.json("metrics", run)


def test_n15_a_shell_in_a_run_has_a_terminal_of_the_user(settled: Lab) -> None:
    """N15: `tarmac shell` in the surroundings of a worker."""
    ann, name = settled.ann, settled.ann.account.pw_name
    run = ann.tarmac("run", "--no-code", "--detach", "--", "sleep", "600", code=0).stdout.split()[0]
    ann.wait_until(run, "running")
    with Screen(ann, "shell", run) as screen:
        screen.press("stat -c 'terminal of %U' $(tty); echo shell of $(id -un) > $(tty); exit 3\n")
        screen.wait_for(f"terminal of {name}")
        screen.wait_for(f"shell of {name}")
        assert screen.end() == 3
    ann.tarmac("stop", "--wait", run, code=0)


def test_n15_a_paused_run_resumes_from_its_own_checkpoint(settled: Lab) -> None:
    """N15: checkpoints are the user's in every attempt; the store, which is the server's, has versions."""
    ann, name = settled.ann, settled.ann.account.pw_name
    ann.write("resume/train.py", SAVES)
    file = ann.write("resume/run.yaml", "name: resume\ncode: .\ncommand: python3 train.py\n")
    run = ann.tarmac("run", file, "--detach", code=0).stdout.split()[0]
    ann.until("logs", run, said="saved")
    ann.tarmac("pause", "--wait", run, code=0)
    ann.tarmac("resume", run, code=0)
    ann.wait_until(run, "ended")
    said = ann.tarmac("logs", run, code=0).stdout
    assert "found seven" in said
    assert said.splitlines()[-1].endswith(name)
    again = ann.write(
        "resume/again.yaml", f"name: again\ncode: .\ninput_artifacts: [{run}]\ncommand: python3 train.py\n"
    )
    assert name in ann.tarmac("run", again, code=0).stdout


def test_n15_every_member_of_an_array_is_the_users(settled: Lab) -> None:
    """N15: arrays."""
    command = ("sh", "-c", "echo $TARMAC_ARRAY_INDEX is $(id -un)")
    settled.bob.tarmac("run", "--no-code", "--name", "many", "--array", "0-2", "--", *command, code=0)
    name = settled.bob.account.pw_name
    said = settled.bob.tarmac("logs", "many", code=0).stdout
    assert said == f"0 is {name}\n1 is {name}\n2 is {name}\n"


def test_n15_every_node_and_a_lost_runner(settled: Lab) -> None:
    """N15: several nodes with hooks, limits and literal paths; after the loss of a runner it starts again."""
    ann, name = settled.ann, settled.ann.account.pw_name
    file = ann.write(
        "wide.yaml",
        "name: wide\nhooks: {before: echo before}\nresources: {slots: 1, memory: 512MiB, cpus: 1}\n"
        "replicas: 2\ncommand: |\n"
        "  echo $TARMAC_NODE $(id -un) >> /mnt/checkpoints/$TARMAC_REPLICA\n"
        "  [ $TARMAC_ATTEMPT = 2 ] || exec sleep 600\n"
        "  stat -c '%n %U' /mnt/checkpoints/$TARMAC_REPLICA\n",
    )
    run = ann.tarmac("run", file, "--rehearse", "2x1", "--detach", code=0).stdout.split()[0]
    kept = settled.admin.home / "runs" / run / "artifacts" / "checkpoint"
    ann.wait_until(run, "running")
    wait_until(lambda: True if len(list(kept.glob("[01]"))) == 2 else None, "no file of each node")
    claims = (settled.admin.home / "runs" / run).glob("attempts/1/nodes/*/claim")
    os.kill(json.loads(next(iter(claims)).read_text())["process"]["pid"], signal.SIGKILL)
    ann.wait_until(run, "ended")
    shown = ann.json("show", run)["run"]
    assert (shown["attempt"], shown["outcome"]) == (2, "completed"), ann.tarmac("show", run).stdout
    said = ann.tarmac("logs", run, code=0).stdout
    assert {f"main.{node} | /mnt/checkpoints/{node} {name}" for node in (0, 1)} <= {*said.splitlines()}


def test_n15_a_killed_server_adopts_the_run(settled: Lab) -> None:
    """N15: kill -9 of the server; the next one continues with the run, and ends it."""
    admin, ann = settled.admin, settled.ann
    run = ann.tarmac("run", "--detach", "--", "bash", "-c", "id -un; exec sleep 600", code=0).stdout.split()[
        0
    ]
    ann.wait_until(run, "running")
    pid = worker_of(ann, run)
    os.kill(int((admin.home / "server.lock").read_text()), signal.SIGKILL)
    admin.tarmac("ls", code=0)  # starts the next one
    assert admin.json("show", run)["run"]["attempt"] == 1
    assert is_running(pid)
    ann.tarmac("stop", "--wait", run, code=0)
    assert not is_running(pid)
    assert ann.account.pw_name in ann.tarmac("logs", run, code=0).stdout
    assert re.search(f"user +ann\nruns as +{ann.account.pw_name}\n", ann.tarmac("show", run, code=0).stdout)


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("tarmac-nobody-here", "this machine has no system user tarmac-nobody-here"),
        ("daemon", "daemon is an account of the system (uid 1): runs use accounts from uid 1000"),
        ("nobody", "nobody may not log in on this machine (its shell is /usr/sbin/nologin)"),
    ],
)
def test_n15_what_is_no_users_account_is_refused(settled: Lab, user: str, reason: str) -> None:
    """N15: a missing user, and accounts of the system, are refused at the submission with the reason."""
    admin = settled.admin
    admin.tarmac("users", "add", "eve", "--runs-as", user, code=0)
    token = admin.tarmac("tokens", "add", "tests", "--user", "eve", code=0).stdout.split()[0]
    eve = Member(admin.home, admin.directory, settled.ann.url, token, settled.ann.account)
    refused = eve.tarmac("run", "--", "true", code=2)
    assert f"runs cannot run as the system user {user}: {reason}" in refused.stderr
    assert "tarmac users set NAME --runs-as USER" in refused.stderr
    admin.tarmac("users", "rm", "eve", code=0)


def test_n15_root_is_no_system_user_of_an_account(settled: Lab) -> None:
    """N15: uid 0."""
    refused = settled.admin.tarmac("users", "add", "eve", "--runs-as", "root", code=2)
    assert "runs cannot run as the system user 'root'" in refused.stderr


def test_n15_a_run_in_an_image_is_refused(settled: Lab) -> None:
    """N15: the user inside a container is another matter: refused rather than run as somebody else."""
    refused = settled.ann.tarmac("run", "--image", "alpine", "--", "true", code=2)
    assert "no run does both" in refused.stderr


def test_n15_a_server_that_is_not_root_runs_nothing_as_another_user() -> None:
    """N15: it lacks the right, so it refuses; its own account is no other user."""
    with two_users() as (owner, other), tempfile.TemporaryDirectory() as name:
        (place := Path(name)).chmod(0o755)
        try:
            install_tarmac(place / "bin", as_user(owner))
        except NotPossible as reason:
            pytest.skip(str(reason))
        variables = {"HOME": owner.pw_dir, "PATH": f"{place}/bin:/usr/bin:/bin", "COLUMNS": "200"}

        def tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
            argv = [*as_user(owner), "tarmac", *arguments]
            return subprocess.run(
                argv,
                env=variables,
                cwd=owner.pw_dir,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )

        try:
            tarmac("users", "add", owner.pw_name, "--runs-as", other.pw_name)
            refused = tarmac("run", "--no-code", "--", "id", "-un")
            assert refused.returncode == 2, refused
            assert "only root can start processes of another system user" in refused.stderr
            tarmac("users", "set", owner.pw_name, "--runs-as", owner.pw_name)
            ran = tarmac("run", "--no-code", "--", "id", "-un")
            assert (ran.returncode, owner.pw_name in ran.stdout) == (0, True), ran
        finally:
            tarmac("server", "stop")
