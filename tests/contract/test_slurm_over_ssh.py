"""A Slurm behind SSH: what only a connection can meet. Over a real sshd, whose host has a disk of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from engine_harness import Work, ended, started, submit
from slurm_clusters import install_standin
from slurm_harness import SshHarness
from ssh_hosts import LoginHost, connections, cut_connections
from tarmac.engines.hosts.host import Host
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.hosts.remote import SshHost
from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.slurm import files
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.cluster import Cluster, Finding
from tarmac.model.errors import TarmacError, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Outcome

SITE = Cluster(name="site", engine="slurm")
BOUND_S = 120.0


@pytest.fixture
def far(login: LoginHost, tmp_path: Path) -> Iterator[SshHarness]:
    made = SshHarness(tmp_path, install_standin(tmp_path / "standin"), login)
    yield made
    made.close()


@pytest.fixture
def host(login: LoginHost, tmp_path: Path) -> Host:
    return reached(login.ssh, login, tmp_path)


def reached(ssh: Ssh, login: LoginHost, near: Path, *, python: str = sys.executable) -> Host:
    return SshHost(login.private / near.name, ssh, python=python, copies=near / "copies", files=files.COPIED)


def in_the_end(action: Callable[[], Observation]) -> Observation:
    """What it returns once the host is reached again."""
    deadline = time.monotonic() + BOUND_S
    while True:
        try:
            return action()
        except Unavailable:
            assert time.monotonic() < deadline
            Event().wait(0.1)


# --- a connection that is cut -------------------------------------------------------------------------


def test_a_run_goes_on_while_the_connection_is_cut_and_nothing_of_it_is_lost(far: SshHarness) -> None:
    attempt = started(far, Work(output="before\n", lasts=True), nodes=2)
    before = connections()
    cut_connections()
    seen = in_the_end(lambda: far.engine.observe([attempt])[attempt])
    assert seen.state is ObservedState.RUNNING
    assert set(connections()).isdisjoint(before)
    assert far.engine.read(attempt, "logs/main.0.0.log").startswith(b"before\n")
    far.engine.request_leave(attempt, LeaveRequest.PAUSE)
    assert far.settle(attempt, ended).outcome is Outcome.PAUSED


def test_a_host_that_is_down_for_a_while_costs_a_run_nothing(login: LoginHost, tmp_path: Path) -> None:
    config = tmp_path / "config"
    ssh = login.reached_by(config, "ControlPath none")
    up = config.read_text()
    far = SshHarness(tmp_path, install_standin(tmp_path / "standin"), replace(login, ssh=ssh))
    attempt = started(far, Work(lasts=True))
    config.write_text(up.replace(f"Port {login.server.port}", "Port 1"))
    cut_connections()
    messages: list[str] = []
    deadline = time.monotonic() + BOUND_S
    while not any("Connection refused" in message for message in messages):
        assert time.monotonic() < deadline, messages
        with pytest.raises(Unavailable) as failure:
            far.engine.observe([attempt])
        messages.append(str(failure.value))
        Event().wait(0.1)
    assert far.engine.workers(attempt)[0].pid is not None  # from the copies
    config.write_text(up)
    seen = in_the_end(lambda: far.engine.observe([attempt])[attempt])
    assert seen.state is ObservedState.RUNNING
    far.engine.request_leave(attempt, LeaveRequest.STOP)
    assert far.settle(attempt, ended).outcome is Outcome.STOPPED
    far.close()


def test_a_job_is_submitted_once_though_the_connection_was_cut_before_its_answer(far: SshHarness) -> None:
    sbatch = Path(far.variables["STANDIN"]) / "bin/sbatch"
    whole = sbatch.read_text()
    sbatch.write_text(whole + "import os\nos.kill(os.getppid(), 9)\n")  # the program at the far end
    launch = far.launch(Work(output="once\n"))
    request = far.engine.render(launch)
    with pytest.raises(Unavailable, match="login: the connection was lost"):
        far.engine.submit(request)
    sbatch.write_text(whole)
    in_the_end(
        lambda: far.engine.submit(request) or far.engine.observe([launch.attempt_id])[launch.attempt_id]
    )
    assert far.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert far.calls("sbatch") == 1


def test_a_command_that_is_under_way_does_not_outlive_the_connection(host: Host, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    os.mkfifo(told)
    argv = ["sh", "-c", f"echo $$ > {told}; exec sleep 600"]
    failures: list[Unavailable] = []

    def run() -> None:
        try:
            host.run(argv, variables={}, timeout_s=600)
        except Unavailable as error:
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    pid = int(told.read_text())
    cut_connections()
    thread.join(BOUND_S)
    assert [str(error) for error in failures] == ["login: the connection was lost"]
    deadline = time.monotonic() + BOUND_S
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < deadline
        Event().wait(0.05)


# --- what a host may be like ----------------------------------------------------------------------------


def test_a_login_shell_may_print_what_it_likes(login: LoginHost, tmp_path: Path) -> None:
    """What a site forces on a key: a long banner without end of line, noise, a shell of its own."""
    noisy = tmp_path / "noisy"
    noisy.write_text(
        "#!/bin/bash\nprintf 'Welcome\\n%.0s' {1..2000}; echo 'stty: no tty' >&2; printf 'last login: '\n"
        'exec bash -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    noisy.chmod(0o755)
    ssh = login.reached_by(tmp_path / "config", new_key(login, tmp_path, f'command="{noisy}"'))
    found = reached(ssh, login, tmp_path).run(["echo", "heard"], variables={}, timeout_s=120)
    assert found == (0, b"heard\n", b"")


def test_code_arrives_whole_and_is_not_taken_twice(host: Host, login: LoginHost, tmp_path: Path) -> None:
    listing, digest = b"the list", "a" * 64
    pieces = [b"%d %d\n" % (len(listing), 20 << 20), listing, *([bytes(1 << 20)] * 20)]
    directory = login.private / tmp_path.name / "code"
    for _ in range(2):
        host.take_code(directory, digest, iter(pieces))
    assert host.read(directory, digest, offset=0, limit=100) == listing
    sizes = host.run(["find", str(directory), "-type", "f", "-printf", "%s\n"], variables={}, timeout_s=120)[
        1
    ]
    assert sorted(sizes.split()) == [b"20971520", b"8"]
    with pytest.raises(ValueError, match="not the name of a snapshot"):
        host.take_code(directory, "../../x", iter(pieces))


def new_key(login: LoginHost, near: Path, rule: str = "") -> str:
    """A key of its own for the login, to which a rule applies; the option that uses it."""
    key = near / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with login.server.authorized.open("a") as file:
        file.write(f"{rule} {key.with_suffix('.pub').read_text()}")
    return f'IdentityFile "{key}"\nIdentitiesOnly yes\nControlPath none\nUser root'


# --- a host that is not reached -------------------------------------------------------------------------


def examined(ssh: Ssh, login: LoginHost, near: Path, *, python: str = sys.executable) -> Finding:
    """What the check of a cluster says of the connection, which is then all that it says."""
    settings = read_settings({"directory": str(login.private / near.name), "partition": "batch"})
    engine = SlurmEngine(
        "site", settings, Supplies(copies=near), host=reached(ssh, login, near, python=python)
    )
    (finding,) = engine.examine(SITE)
    assert (finding.what, finding.ok) == ("connection", False)
    with pytest.raises(TarmacError):  # at once, from memory: no other login is tried
        engine.observe(["run1.1"])
    return finding


def test_a_host_that_is_down(login: LoginHost, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ssh = login.reached_by(tmp_path / "config", f"Port {free.getsockname()[1]}")
        assert "Connection refused" in examined(ssh, login, tmp_path).text


def test_a_host_whose_key_nobody_has_accepted(login: LoginHost, tmp_path: Path) -> None:
    ssh = login.reached_by(tmp_path / "config", f"UserKnownHostsFile {tmp_path / 'none'}")
    text = examined(ssh, login, tmp_path).text
    assert text.startswith("login: its host key is not known here (once by hand: ssh login")


def test_a_host_that_has_another_key_than_before(login: LoginHost, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    kind, public = (tmp_path / "other.pub").read_text().split()[:2]
    (tmp_path / "known").write_text(f"[127.0.0.1]:{login.server.port} {kind} {public}\n")
    ssh = login.reached_by(tmp_path / "config", f"UserKnownHostsFile {tmp_path / 'known'}")
    text = examined(ssh, login, tmp_path).text
    assert "its host key is not the one that is known" in text
    assert "ssh-keygen -R" in text


def test_a_key_that_the_host_does_not_take(login: LoginHost, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    option = f'IdentityFile "{tmp_path / "key"}"\nIdentitiesOnly yes'
    config = tmp_path / "config"
    ssh = login.reached_by(config, option)
    config.write_text(config.read_text().replace(str(login.server.key), str(tmp_path / "key")))
    text = examined(ssh, login, tmp_path).text
    assert text.startswith("login: Permission denied (publickey) (which keys it tried: ssh -v login")


def test_a_host_without_a_python(login: LoginHost, tmp_path: Path) -> None:
    text = examined(login.ssh, login, tmp_path, python="/no/such/python3").text
    assert "/no/such/python3: No such file or directory" in text
    assert "the setting python names one that is there" in text


def test_the_check_says_how_the_host_was_reached(far: SshHarness) -> None:
    found = {finding.what: finding for finding in far.engine.examine(SITE)}
    assert [finding for finding in found.values() if not finding.ok] == []
    assert "login answered after" in found["connection"].text


# --- asking -------------------------------------------------------------------------------------------


def test_one_connection_and_one_query_serve_all_attempts(far: SshHarness) -> None:
    far.hold_the_queue(True)
    attempts = [submit(far, Work(), run_id=f"run{number}") for number in range(5)]
    before, there = far.calls("squeue"), connections()
    seen = far.engine.observe(attempts)
    assert {each.state for each in seen.values()} == {ObservedState.SUBMITTED}
    assert far.calls("squeue") == before + 1
    assert set(connections()) <= set(there)
