"""Ways to a login node that have a step more: a host in between, and a second factor. Over real sshds."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from gitserver import NO_SSHD
from ssh_hosts import CODE, LoginHost, end_session, jump_host, second_factor_host
from tarmac.engines.hosts.host import Host
from tarmac.engines.hosts.remote import SshHost
from tarmac.engines.hosts.ssh import Refused, Ssh
from tarmac.engines.slurm import files
from tarmac.model.errors import Unavailable

BOUND_S = 120.0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginHost]:
    """A host that asks for a code besides the key."""
    with second_factor_host(tmp_path_factory.mktemp("guarded") / "keys") as host:
        if host is None:
            pytest.skip(f"{NO_SSHD}, or no name space for rules of its own")
        yield host


def host_by(ssh: Ssh, near: Path) -> Host:
    return SshHost(near / "site", ssh, python=sys.executable, copies=near / "copies", files=files.COPIED)


def echo(host: Host) -> bytes:
    return host.run(["echo", "heard"], variables={}, timeout_s=BOUND_S)[1]


def open_by_hand(ssh: Ssh, near: Path, command: str) -> None:
    """A person types the command that was said, and the code; until its session can be shared."""
    types = near / "types"
    types.write_text(f"#!/bin/sh\necho {CODE}\n")
    types.chmod(0o755)
    program, *words = shlex.split(command)
    assert program == "ssh"
    env = {**os.environ, "SSH_ASKPASS": str(types), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run([*ssh.program, *words], env=env, check=True, timeout=BOUND_S, stdin=subprocess.DEVNULL)
    session = ssh.session()
    assert session is not None
    assert session.exists()


def refusal(host: Host) -> Unavailable:
    """What is said once the loss of a connection has been noticed and another login was tried."""
    deadline = time.monotonic() + BOUND_S
    while True:
        with pytest.raises(Unavailable) as failure:
            echo(host)
        if isinstance(failure.value, Refused):
            return failure.value
        assert time.monotonic() < deadline, failure.value
        Event().wait(0.1)


def test_a_host_behind_another_is_reached_through_it(login: LoginHost, tmp_path: Path) -> None:
    with jump_host(tmp_path / "jump", login) as (jump, ssh):
        host = host_by(ssh, tmp_path)
        assert echo(host) == b"heard\n"
        reached = host.examine()
        assert reached is not None
        assert "by way of jump" in reached.text
        assert subprocess.run([*ssh.program, "jump", "true"], check=False, timeout=BOUND_S).returncode == 1

        end_session(ssh)
        jump.authorized.write_text("")
        with pytest.raises(Unavailable) as failure:
            echo(host_by(ssh, tmp_path))
        assert failure.value.message.startswith("login: no way through jump: ")
        assert failure.value.hint is not None
        assert failure.value.hint.startswith("ssh jump should log in without a question")


def test_a_session_that_a_person_opened_is_shared_and_its_end_is_said(
    guarded: LoginHost, tmp_path: Path
) -> None:
    ssh, host = guarded.ssh, host_by(guarded.ssh, tmp_path)
    words = (
        "login: it asks for what only a person can type, and no session is open to share: Permission denied"
    )
    for _ in range(2):
        refused = refusal(host)
        assert refused.message.startswith(words)
        assert refused.hint is not None
        command = refused.hint.removeprefix("open a session by hand, which is then shared: ")
        open_by_hand(ssh, tmp_path, command)
        assert echo(host) == b"heard\n", "at once, though the last login failed"
        end_session(ssh)


def test_a_wrong_code_opens_nothing(guarded: LoginHost, tmp_path: Path) -> None:
    types = tmp_path / "types"
    types.write_text("#!/bin/sh\necho 000000\n")
    types.chmod(0o755)
    env = {**os.environ, "SSH_ASKPASS": str(types), "SSH_ASKPASS_REQUIRE": "force"}
    argv = [*guarded.ssh.program, "-o", "NumberOfPasswordPrompts=1", "login", "true"]
    done = subprocess.run(
        argv, env=env, check=False, timeout=BOUND_S, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert done.returncode == 255
