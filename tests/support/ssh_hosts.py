"""Hosts behind SSH for tests: a private sshd on loopback, and a config of ssh that leads there.

Used by the contract suites of engines and the end-to-end tests.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from gitserver import SshServer, ssh_server
from tarmac.engines.hosts.ssh import Ssh

TARGET = "login"
CODE = "123456"
"""What a person types besides the key."""


@dataclass(frozen=True)
class LoginHost:
    """A host behind SSH. What lies in its directory `private` is seen there alone, where `apart`."""

    ssh: Ssh
    server: SshServer
    private: Path
    apart: bool

    def seen_there(self, path: Path) -> Path:
        """A path of the host, as this machine reaches it."""
        return Path(f"/proc/{self.server.pid}/root{path}") if self.apart else path

    def reached_by(self, path: Path, *options: str) -> Ssh:
        """Another way there, by a config of its own."""
        return Ssh(TARGET, ("ssh", "-F", str(write_config(path, self.server, *options))))


@contextmanager
def login_host(
    directory: Path, *, apart: bool = True, variables: Mapping[str, str] | None = None
) -> Iterator[LoginHost | None]:
    """This machine behind a real sshd, as a host with a disk of its own; None where there can be none.

    Not `apart`: with the disk of this machine, for nodes that are not started there.
    """
    private = directory.with_name("private")
    private.mkdir()
    own_disk = [
        *("unshare", "--mount", "sh", "-c"),
        f'mount -t tmpfs tmpfs "{private}" && exec "$@"',
        "apart",
    ]
    if apart:
        apart = subprocess.run([*own_disk, "true"], capture_output=True, check=False).returncode == 0
    with ssh_server(directory, before=own_disk if apart else (), variables=variables or {}) as server:
        if server is None:
            yield None
            return
        ssh = Ssh(TARGET, ("ssh", "-F", str(write_config(directory / "config of ssh", server))))
        try:
            yield LoginHost(ssh, server, private, apart)
        finally:
            end_session(ssh)


@contextmanager
def jump_host(directory: Path, login: LoginHost) -> Iterator[tuple[SshServer, Ssh]]:
    """A second sshd, `jump`, which lets nobody do more than go on to the host; the way there through it."""
    with ssh_server(directory, options=["PermitTTY no", "ForceCommand false"]) as jump:
        assert jump is not None, "there is one for the host"
        lines = ["Host jump", "HostName 127.0.0.1", f"Port {jump.port}", "User root", "IdentitiesOnly yes"]
        lines += [f'IdentityFile "{jump.key}"', f'UserKnownHostsFile "{jump.known_hosts}"']
        path = directory / "config-of-ssh"  # a blank would be lost on its way to the ssh that reaches the hop
        ssh = login.reached_by(path, "ProxyJump jump", "ControlPath none")
        path.write_text(path.read_text() + "\n".join(lines) + "\n")
        yield jump, ssh


@contextmanager
def second_factor_host(directory: Path) -> Iterator[LoginHost | None]:
    """This machine behind an sshd that asks for a code besides the key; None where that cannot be.

    PAM decides there, by rules that are seen by that sshd alone. The code is CODE.
    """
    rules = directory.with_name("pam")
    rules.mkdir()
    check = rules / "check"
    check.write_text(f"#!/bin/sh\n[ \"$(tr -d '\\\\0')\" = {CODE} ]\n")
    check.chmod(0o755)
    (rules / "sshd").write_text(
        f"auth required pam_exec.so quiet expose_authtok {check}\nauth required pam_permit.so\n"
        "account required pam_permit.so\nsession required pam_permit.so\n"
    )
    mount = f'mount --bind "{rules}" /etc/pam.d && exec "$@"'
    own_rules = ["unshare", "--mount", "sh", "-c", mount, "own-rules"]
    if subprocess.run([*own_rules, "true"], capture_output=True, check=False).returncode != 0:
        yield None
        return
    options = ["UsePAM yes", "KbdInteractiveAuthentication yes"]
    options.append("AuthenticationMethods publickey,keyboard-interactive")
    with ssh_server(directory, before=own_rules, options=options) as server:
        if server is None:
            yield None
            return
        ssh = Ssh(TARGET, ("ssh", "-F", str(write_config(directory / "config of ssh", server))))
        try:
            yield LoginHost(ssh, server, directory.with_name("private"), apart=False)
        finally:
            end_session(ssh)


def write_config(path: Path, server: SshServer, *options: str) -> Path:
    """A config of ssh by which TARGET is that server; of several options of a name the first counts."""
    lines = [f"Host {TARGET}", *options, "HostName 127.0.0.1", f"Port {server.port}", "IdentitiesOnly yes"]
    lines += [f'IdentityFile "{server.key}"', f'UserKnownHostsFile "{server.known_hosts}"']
    path.write_text("\n".join(lines) + "\n")
    return path


def end_session(ssh: Ssh) -> None:
    """End a shared session, if there is one."""
    session = ssh.session()
    if session is not None and session.exists():
        argv = [*ssh.program, "-o", f"ControlPath={session}", "-O", "exit", ssh.target]
        subprocess.run(argv, capture_output=True, check=False, timeout=120)


def install_ssh(directory: Path, host: LoginHost) -> str:
    """Put an `ssh` into a directory that knows the host as TARGET; a PATH with it."""
    directory.mkdir(exist_ok=True)
    program = directory / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([which("ssh") or "", *host.ssh.program[1:]])} "$@"\n')
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def connections(parent: int | None = None) -> list[int]:
    """The processes of ssh that this one, or another, has started and that still run."""
    return _children("ssh", parent or os.getpid())


def cut_connections(parent: int | None = None) -> None:
    """End them, in the middle of whatever they carry."""
    for pid in connections(parent):
        os.kill(pid, signal.SIGKILL)


def cut_sessions(host: LoginHost) -> None:
    """End them at their far end, as a network that is gone would: shared ones as well."""
    for pid in _children("sshd", host.server.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _children(program: str, parent: int) -> list[int]:
    """The processes of that name with this parent that still run."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, IndexError):
                name, _, rest = (path / "stat").read_text().partition("(")[2].rpartition(")")
                state, started_by = rest.split()[:2]
                if name == program and state != "Z" and int(started_by) == parent:
                    found.append(int(path.name))
    return found
