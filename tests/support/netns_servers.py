"""Servers with a network, processes and a disk of their own, each behind a real sshd: network namespaces.

For tests of real engines over SSH; they need root. All is gone after the block, whatever happens in it:
the first process of a server's namespace of processes takes all others with it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gitserver import SSHD

LIMIT_S = 120.0
_COUNT = itertools.count()

BEGIN = """
set -e
hostname "$1"
mount -t tmpfs tmpfs /var/tmp
exec "$2" -D -e -f "$3"
"""


class Missing(Exception):
    """There can be no such servers here; the message says why."""


@dataclass(frozen=True)
class NetnsServers:
    """Servers by name: their addresses, and a directory whose `ssh` leads to them."""

    bin: Path
    addresses: dict[str, str]
    first_pids: dict[str, int]

    def processes(self, name: str) -> list[str]:
        """What runs on one of them: the names of all processes below its first."""
        children: dict[int, list[int]] = {}
        names: dict[int, str] = {}
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                with suppress(OSError, ValueError):
                    text = (path / "stat").read_text()
                    names[int(path.name)] = text[text.index("(") + 1 : text.rindex(")")]
                    children.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(
                        int(path.name)
                    )
        found, pending = [], [self.first_pids[name]]
        while pending:
            for pid in children.get(pending.pop(), ()):
                found.append(names[pid])
                pending.append(pid)
        return found


@contextmanager
def netns_servers(directory: Path, names: Sequence[str]) -> Iterator[NetnsServers]:
    """So many servers, in one network with this machine. Raises Missing."""
    if os.geteuid() != 0 or SSHD is None or shutil.which("ip") is None or shutil.which("ssh") is None:
        raise Missing("servers of one's own take root, ip and an sshd")
    directory.mkdir()
    unique = f"tm{os.getpid() % 1_000_000:x}{next(_COUNT)}"
    with ExitStack() as stack:
        subnet = _bridge(stack, unique)
        _keys(directory)
        addresses = {name: f"{subnet}.{number}" for number, name in enumerate(names, start=11)}
        started = {
            name: _server(stack, directory, f"{unique}n{number}", unique, name, addresses)
            for number, name in enumerate(names)
        }
        for name, process in started.items():
            _until_listening(addresses[name], process)
        yield NetnsServers(
            bin=_ssh(directory, addresses),
            addresses=addresses,
            first_pids={name: process.pid for name, process in started.items()},
        )


def _bridge(stack: ExitStack, unique: str) -> str:
    """A bridge with an address of this machine; the first three numbers of the addresses on it."""
    taken = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    subnets = (f"10.{79 + n // 250 % 100}.{n % 250}" for n in itertools.count(os.getpid() * 7))
    subnet = next(each for each in subnets if f" {each}." not in taken)
    if not _run("ip", "link", "add", f"{unique}b", "type", "bridge"):
        raise Missing("no network can be made here")
    stack.callback(_run, "ip", "link", "del", f"{unique}b")
    _run("ip", "addr", "add", f"{subnet}.1/24", "dev", f"{unique}b")
    _run("ip", "link", "set", f"{unique}b", "up")
    return subnet


def _server(
    stack: ExitStack,
    directory: Path,
    namespace: str,
    unique: str,
    name: str,
    addresses: dict[str, str],
) -> subprocess.Popen[bytes]:
    if not _run("ip", "netns", "add", namespace):
        raise Missing("no namespace of a network can be made here")
    stack.callback(_run, "ip", "netns", "del", namespace)
    hosts = Path("/etc/netns", namespace)
    hosts.mkdir(parents=True)
    stack.callback(shutil.rmtree, hosts, ignore_errors=True)
    lines = [f"{address} {each}" for each, address in addresses.items()]
    (hosts / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines]) + "\n")
    inside = ("ip", "netns", "exec", namespace, "ip")
    for argv in (
        ("ip", "link", "add", f"{namespace}o", "type", "veth", "peer", "name", "eth0", "netns", namespace),
        ("ip", "link", "set", f"{namespace}o", "master", f"{unique}b", "up"),
        (*inside, "addr", "add", f"{addresses[name]}/24", "dev", "eth0"),
        (*inside, "link", "set", "eth0", "up"),
        (*inside, "link", "set", "lo", "up"),
    ):
        if not _run(*argv):
            raise Missing(f"no network can be made here: {' '.join(argv)}")
    config = directory / f"sshd of {name}"
    config.write_text(
        f"ListenAddress {addresses[name]}\nHostKey {directory}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {directory}/key.pub\nStrictModes no\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel ERROR\n"
    )
    apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    process = subprocess.Popen(
        ["ip", "netns", "exec", namespace, *apart, "sh", "-c", BEGIN, "sh", name, str(SSHD), str(config)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(LIMIT_S)
    if process.stderr is not None:
        process.stderr.close()


def _keys(directory: Path) -> None:
    for name in ("host", "key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True
        )
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def _ssh(directory: Path, addresses: dict[str, str]) -> Path:
    """A directory with an `ssh` that knows the servers by their names."""
    kind, public = (directory / "host.pub").read_text().split()[:2]
    known = directory / "known hosts"
    known.write_text("".join(f"{address} {kind} {public}\n" for address in addresses.values()))
    config = directory / "config of ssh"
    config.write_text(
        "".join(f"Host {name}\nHostName {address}\n" for name, address in addresses.items())
        + f'Host *\nUser root\nIdentitiesOnly yes\nIdentityFile "{directory}/key"\n'
        f'UserKnownHostsFile "{known}"\n'
    )
    folder = directory / "bin"
    folder.mkdir()
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "{config}" "$@"\n')
    program.chmod(0o755)
    return folder


def _until_listening(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((address, 22)) == 0:
                return
    words = process.stderr.read().decode() if process.poll() is not None and process.stderr else "no answer"
    raise Missing(f"a server of one's own does not start: {words.strip()[-200:]}")


def _run(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
