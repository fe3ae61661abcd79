"""Runs of accounts with a system user (N15) on a real Slurm of root, each over a connection of that user."""

from __future__ import annotations

import grp
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from attempts import wait_until
from shell import Shell
from slurm_clusters import Missing
from slurm_labs import slurm_lab
from ssh_hosts import install_ssh, login_host
from system_users import SAVES, Lab, Member, needs_root, processes_of

pytestmark = [
    needs_root,
    pytest.mark.real_engine,
    pytest.mark.xdist_group("slurm-users"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Lab, Path]]:
    try:
        with slurm_lab() as found:
            yield found
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def settled(made: tuple[Lab, Path]) -> Lab:
    return made[0]


def test_n15_a_job_is_its_users_own(settled: Lab) -> None:
    """N15: user, groups and variables of the job are the system user's; others cannot enter its directory."""
    ann, name = settled.ann, settled.ann.account.pw_name
    group = next(each for each in grp.getgrall() if name in each.gr_mem)
    (shared := Path(f"/home/{name}/of-group")).write_text("for the group\n")
    os.chown(shared, 0, group.gr_gid)
    shared.chmod(0o040)
    script = "id -un; id -gn; env; stat -c 'mine %U %a' ../../../../../../..; cat ~/of-group; exec sleep 600"
    words = ("--no-code", "--cluster=site", "--detach", "--", "bash", "-c", script)
    run = ann.tarmac("run", *words, code=0).stdout.split()[0]
    ann.until("logs", run, said="for the group")
    said = ann.tarmac("logs", run, code=0).stdout
    for line in (name, f"HOME=/home/{name}", f"USER={name}", f"mine {name} 700", "for the group"):
        assert line in said.splitlines(), said
    assert str(settled.admin.home) not in said
    native = ann.json("show", run)["attempts"][-1]["native"]["id"]
    assert f"UserId={name}(" in command("scontrol", "show", "job", native).stdout
    ann.tarmac("stop", "--wait", run, code=0)


SECRET = "a word that is hidden\n"
TRAIN = f"""import tarmac
tarmac.report(1, loss=2.0)
{SAVES}
if found is not None:
    time.sleep(600)
"""
TRAINING = """name: train
cluster: site
code: .
setup: ['echo step $(id -un)']
secrets: [WORD]
command: cat $SECRET_PATH_WORD; python3 train.py
"""


def test_n15_two_people_train_pause_resume_and_the_server_dies(settled: Lab) -> None:
    """N15: checkpoints, logs, sessions, metrics, artifacts and a stop; the server is killed in between."""
    admin = settled.admin
    admin.tarmac("secret", "set", "WORD", "--shared", "--as", "file", "--file", "-", stdin=SECRET, code=0)
    runs = {}
    for member in (settled.ann, settled.bob):
        member.write("train/train.py", TRAIN)
        file = member.write("train/run.yaml", TRAINING)
        runs[member] = member.tarmac("run", file, "--detach", code=0).stdout.split()[0]
    for member, run in runs.items():
        member.until("logs", run, said="saved")
    kill_server(admin)
    ann, bob = settled.ann, settled.bob
    ann.tarmac("pause", "--wait", runs[ann], code=0)
    assert bob.json("show", runs[bob])["run"]["state"] == "running"
    kill_server(admin)
    ann.tarmac("resume", runs[ann], code=0)
    name = ann.account.pw_name
    ann.until("logs", runs[ann], said=f"mine {name}")
    for words in ("found seven", "***"):
        assert words in ann.tarmac("logs", runs[ann], code=0).stdout
    assert "loss" in ann.tarmac("metrics", runs[ann], code=0).stdout
    ann.wait_until(runs[ann], "running")
    for person in (ann, admin):
        said = person.tarmac("exec", runs[ann], "--", "sh", "-c", "id -un; echo $HOME", code=0).stdout
        assert said.split() == [name, f"/home/{name}"]
    for member, run in runs.items():
        member.tarmac("stop", "--wait", run, code=0)
        assert "checkpoint" in member.tarmac("artifacts", "ls", run, code=0).stdout
        kept = Path(f"/home/{member.account.pw_name}/.tarmac/site/runs/{run}")
        assert kept.stat().st_uid == member.account.pw_uid
        member.tarmac("rm", "-y", run, code=0)
        assert not kept.exists()
    assert not command("squeue", "--noheader", "--states=R,PD").stdout


def test_n15_a_requeued_job_and_runs_of_others(settled: Lab) -> None:
    """N15: an admin of Slurm requeues a job; an account without a system user runs as before."""
    ann, name = settled.ann, settled.ann.account.pw_name
    script = "echo attempt $TARMAC_ATTEMPT of $(id -un); [ $TARMAC_ATTEMPT = 2 ] || exec sleep 600"
    run = ann.tarmac(
        "run", "--no-code", "--cluster=site", "--detach", "--", "bash", "-c", script, code=0
    ).stdout.split()[0]
    ann.until("logs", run, said=f"attempt 1 of {name}")
    other = settled.admin.tarmac("run", "--no-code", "--cluster=site", "--", "id", "-un", code=0).stdout
    assert "root" in other.split()
    native = ann.json("show", run)["attempts"][-1]["native"]["id"]
    assert command("scontrol", "update", f"jobid={native}", "requeue=1").returncode == 0
    assert command("scontrol", "requeue", native).returncode == 0
    ann.until("logs", run, said=f"attempt 2 of {name}")
    ann.wait_until(run, "ended")


def test_n15_behind_ssh_each_user_has_a_login(
    made: tuple[Lab, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """N15: where Slurm is behind SSH, the server logs in as the user, in a directory of that user."""
    (admin, ann, bob), place = made
    with login_host(place / "login", apart=False, variables={"SLURM_CONF": os.environ["SLURM_CONF"]}) as host:
        if host is None:
            pytest.skip("there is no sshd")
        (place / "login").chmod(0o711)
        monkeypatch.setenv("PATH", install_ssh(place / "bin", host))
        admin.tarmac("server", "restart", code=0)
        settings = ["--set=ssh=login", f"--set=directory={place}/root/far", "--set=partition=batch"]
        settings.append("--set=user_directory=/home/{user}/runs")
        admin.tarmac("clusters", "add", "far", "--engine=slurm", *settings, code=0)
        for member in (ann, bob):  # with a key alone: sshd takes an account without any password for locked
            subprocess.run(["usermod", "--password", "*", member.account.pw_name], check=True)
        for member in (ann, bob):
            said = member.output("id -un; pwd", "--no-code", "--cluster=far").split()
            assert said[0] == member.account.pw_name
            assert said[1].startswith(f"/home/{member.account.pw_name}/runs/far/runs/")
        assert "root" in admin.tarmac("run", "--no-code", "--cluster=far", "--", "id", "-un", code=0).stdout
        host.server.authorized.chmod(0o600)  # nobody but root can log in any more
        end_sessions(bob)
        run = bob.tarmac("run", "--no-code", "--cluster=far", "--detach", "--", "true", code=0)
        bob.wait_until(name := run.stdout.split()[0], "ended")
        assert "Permission denied (publickey)" in bob.tarmac("show", name).stdout
        admin.tarmac("clusters", "rm", "far", code=0)


HOSTILE = """
import glob, re, sys
program = sys.stdin.buffer.read(8192).decode()
mark, size = re.search(r"load\\('([^']+)', (\\d+)", program).groups()
sys.stdin.buffer.read(int(size))
sys.path.insert(0, glob.glob("/home/{name}/.tarmac/site/node/*")[0])
from tarmac.node.wire.connection import Connection
sys.stdout.write(mark + " ready\\n")
sys.stdout.flush()
Connection(1, find=lambda name: lambda **given: 7, margin_s=None, accepted=True).run(sys.stdin.buffer)
"""
"""The far end of a user who wants to disturb the server: the answer to every question is 7."""


def test_n16_a_hostile_far_end_disturbs_no_other_user(settled: Lab) -> None:
    """N16: the user owns the login, and can put anything there; runs of others begin, and end as asked."""
    ann, bob = settled.ann, settled.bob
    home = Path(f"/home/{bob.account.pw_name}")
    run = bob.tarmac("run", "--no-code", "--cluster=site", "--detach", "--", "sleep", "600", code=0)
    bob.wait_until(run := run.stdout.split()[0], "running")
    (home / "hostile.py").write_text(HOSTILE.replace("{name}", bob.account.pw_name))
    profile = home / ".bash_profile"
    profile.write_text(f"exec /usr/bin/python3 {home}/hostile.py <&3 3<&-\n")
    try:
        end_sessions(bob)
        other = bob.tarmac("run", "--no-code", "--cluster=site", "--detach", "--", "true", code=0)
        log = settled.admin.home / "server.log"
        wait_until(lambda: "in a wrong form" in log.read_text() or None, "no wrong answer")
        assert ann.account.pw_name in ann.output("id -un", "--no-code", "--cluster=site")
        for each in (run, other.stdout.split()[0]):
            assert settled.admin.json("show", each)["run"]["state"] in ("running", "starting", "submitted")
    finally:
        profile.unlink()
        end_sessions(bob)
    bob.wait_until(other.stdout.split()[0], "ended")
    bob.tarmac("stop", "--wait", run, code=0)


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("tarmac-nobody-here", "this machine has no system user tarmac-nobody-here"),
        ("daemon", "daemon is an account of the system (uid 1)"),
        ("nobody", "nobody may not log in on this machine"),
    ],
)
def test_n15_what_is_no_users_account_is_refused(settled: Lab, user: str, reason: str) -> None:
    """N15: a missing user, and accounts of the system, are refused at the submission with the reason."""
    admin = settled.admin
    admin.tarmac("users", "add", "eve", "--runs-as", user, code=0)
    token = admin.tarmac("tokens", "add", "tests", "--user", "eve", code=0).stdout.split()[0]
    eve = Member(admin.home, admin.directory, settled.ann.url, token, settled.ann.account)
    refused = eve.tarmac("run", "--no-code", "--cluster=site", "--", "true", code=2)
    assert reason in refused.stderr
    admin.tarmac("users", "rm", "eve", code=0)


def test_n15_a_right_that_is_missing_ends_the_run(settled: Lab) -> None:
    """N15: a home that the user may not write ends the run with the reason; nothing runs as the server."""
    bob, home = settled.bob, Path(f"/home/{settled.bob.account.pw_name}")
    shutil.rmtree(home / ".tarmac", ignore_errors=True)
    os.chown(home, 0, 0)
    home.chmod(0o755)
    try:
        kill_server(settled.admin)  # a connection that has been verified serves on
        started = bob.tarmac("run", "--no-code", "--cluster=site", "--detach", "--", "true", code=0)
        run = started.stdout.split()[0]
        bob.wait_until(run, "ended")
        said = bob.tarmac("show", run).stdout
        assert f"cannot run as the system user {settled.bob.account.pw_name}" in said, said
        assert "Permission denied" in said
    finally:
        os.chown(home, settled.bob.account.pw_uid, settled.bob.account.pw_gid)
        home.chmod(0o700)
    kill_server(settled.admin)  # which tries the next login at once
    assert settled.bob.account.pw_name in bob.output("id -un", "--no-code", "--cluster=site")


def command(*argv: str) -> subprocess.CompletedProcess[str]:
    """What an administrator of Slurm does."""
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def kill_server(admin: Shell) -> None:
    """The end of the server, and the start of the next one."""
    os.kill(int((admin.home / "server.lock").read_text()), signal.SIGKILL)
    admin.tarmac("ls", code=0)


def end_sessions(member: Member) -> None:
    """End the far ends of a user's connections, and shared sessions of SSH."""
    for pid, line in processes_of(member).items():
        if "sys.stdin.buffer" in line or "hostile" in line or line.startswith("sshd:"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
