"""Servers behind SSH for tests, to start a cluster on: several names that lead to a real sshd on loopback.

All of them are this machine, each with a directory of its own and, in place of Ray, a small stand-in.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gitserver import SshServer, ssh_server
from ssh_hosts import end_session
from tarmac.engines.hosts.ssh import Ssh
from tarmac.model.cluster import Machine

VERSION = "2.60.0"

RAY_MODULE = f"""import os, signal, socket, sys
from pathlib import Path

def main():
    own = Path(__file__).parent
    if sys.argv[1:] == ["--version"]:
        version = own / "version"
        print("ray, version", version.read_text() if version.exists() else {VERSION!r})
        return
    options = dict(zip(sys.argv[3:], sys.argv[4:]))
    assert sys.argv[1:3] == ["start", "--block"], sys.argv
    assert os.environ["RAY_AUTH_MODE"] == "token"
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    assert token.stat().st_mode & 0o077 == 0
    secret = token.read_bytes()
    assert len(secret) == 64 and secret.decode() not in " ".join(sys.argv)
    if (own / "broken").exists():
        print("2026-11-23 01:31:07,566\\tERR scripts.py:1 -- RuntimeError: the GPU has fallen off the bus")
        sys.exit(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    if "--head" in sys.argv:
        assert os.environ["RAY_gcs_storage"] == "rocksdb"
        Path(os.environ["RAY_gcs_storage_path"], "tables").touch()
        listener = socket.create_server((options["--node-ip-address"], int(options["--port"])))
    else:
        host, _, port = options["--address"].rpartition(":")
        socket.create_connection((host, int(port))).close()
    if os.fork() == 0:
        Path(own / "child").write_text(str(os.getpid()))
        signal.pause()
    print("Ray runtime started.", flush=True)
    while True:
        signal.pause()
"""
RAY = f"#!{sys.executable} -ISB\n{RAY_MODULE}\nmain()\n"
"""It stands for `ray start --block`: it listens as a head, or joins one, with one process below its own."""


@dataclass(frozen=True)
class SshServers:
    """Names `gpu1`, `gpu2`, ... that the command of `ssh` reaches, and what each has."""

    root: Path
    server: SshServer
    subnet: str
    port: int

    def ssh(self, target: str) -> Ssh:
        """A way to one of them."""
        return Ssh(target, ("ssh", "-F", str(self.root / "config of ssh")))

    def machine(self, name: str, **fields: object) -> Machine:
        """One of them as a hosts file would say it."""
        number = int(name.removeprefix("gpu"))
        values: dict[str, object] = {
            "address": f"127.{self.subnet}.{number}",
            "python": str(self.root / name / "bin/python3"),
            "directory": str(self.root / "data"),
        }
        if fields.get("head"):
            values["port"] = self.port
        return Machine(name=name, **{**values, **fields})  # type: ignore[arg-type]

    def line(self, machine: Machine) -> str:
        """A machine as a line of a hosts file."""
        words = [machine.target, *(["head"] if machine.head else [])]
        fields = ("port", "slots", "cpus", "address", "python", "directory")
        return " ".join(
            [*words, *(f"{name}={value}" for name in fields if (value := getattr(machine, name)) is not None)]
        )

    def bin(self, name: str) -> Path:
        """Where the Python and the Ray of one lie."""
        return self.root / name / "bin"

    def provide(self, name: str, version: str | None = VERSION) -> None:
        """Give one a Python and, unless `version` is None, a Ray."""
        self.bin(name).mkdir(parents=True, exist_ok=True)
        python = self.bin(name) / "python3"
        if not python.exists():
            python.symlink_to(sys.executable)
        ray = self.bin(name) / "ray"
        ray.unlink(missing_ok=True)
        if version is not None:
            ray.write_text(RAY)
            ray.chmod(ray.stat().st_mode | stat.S_IXUSR)
            (self.bin(name) / "version").write_text(version)

    def forbid(self, name: str) -> None:
        """Let nobody log in at one any more: its key is another."""
        (self.root / f"key of {name}").unlink()
        shutil.copy(self.root / "keys" / "host", self.root / f"key of {name}")


@contextmanager
def ssh_servers(root: Path, *, count: int = 4) -> Iterator[SshServers | None]:
    """So many of them, each with a stand-in for Ray; None where there can be no sshd."""
    root.mkdir()
    pip = root / "pip.conf"
    pip.write_text(f"[install]\nindex-url = file://{root}/index\n")
    with ssh_server(root / "keys", variables={"PIP_CONFIG_FILE": str(pip)}) as server:
        if server is None:
            yield None
            return
        pid = os.getpid()
        servers = SshServers(root, server, f"{pid % 200 + 20}.{pid // 200 % 250}", 20_000 + pid % 10_000)
        names = [f"gpu{number}" for number in range(1, count + 1)]
        blocks = []
        for name in names:
            servers.provide(name)
            key = root / f"key of {name}"
            shutil.copy(server.key, key)
            blocks.append(
                f"Host {name}\nHostName 127.0.0.1\nPort {server.port}\nIdentitiesOnly yes\n"
                f'IdentityFile "{key}"\nUserKnownHostsFile "{server.known_hosts}"\n'
                f"HostKeyAlias [127.0.0.1]:{server.port}\n"
            )
        (root / "config of ssh").write_text("\n".join(blocks))
        try:
            yield servers
        finally:
            for name in names:
                end_session(servers.ssh(name))
