"""Hosts behind SSH for tests: a private sshd on loopback, and a config of ssh that leads there.

Used by the contract suites of engines and the end-to-end tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gitserver import SshServer, ssh_server
from tarmac.engines.hosts.ssh import Ssh

TARGET = "login"


@dataclass(frozen=True)
class LoginHost:
    """A host behind SSH. What lies in its directory `private` is seen there alone, where `apart`."""

    ssh: Ssh
    server: SshServer
    private: Path
    apart: bool

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


def connections(parent: int | None = None) -> list[int]:
    """The processes of ssh that this one, or another, has started and that still run."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, IndexError):
                name, _, rest = (path / "stat").read_text().partition("(")[2].rpartition(")")
                state, started_by = rest.split()[:2]
                if name == "ssh" and state != "Z" and int(started_by) == (parent or os.getpid()):
                    found.append(int(path.name))
    return found


def cut_connections(parent: int | None = None) -> None:
    """End them, in the middle of whatever they carry."""
    for pid in connections(parent):
        os.kill(pid, signal.SIGKILL)
