"""An account of hosts for rent on this machine, for tests: network namespaces that run a real sshd.

As a program it is the commands of a provider of the kind `machines`: `rented_hosts.py DIRECTORY create`,
`list` and `delete` read and print JSON. Each host runs the script of its request at its first start, as root;
when it powers itself off, all of it ends. Its hours pass when a test says so. This machine reaches it only at
its address for SSH, its neighbours only at the inner one.

`account` makes such an account, and ends all that it ever rented.
"""

from __future__ import annotations

import array
import fcntl
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NO_CAPACITY, UNKNOWN_SHAPE = 10, 12
BRIDGES = ("b", "i")
"""The network with this machine, and the inner one of the hosts, in which this machine has no address."""

INNER = "198.18.0"
LIMIT_S = 120.0
_COUNT = itertools.count()

INIT = """\
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print(flush=True)
while True:
    signal.pause()
"""
"""The first process of a host: the host is on while it runs. Signals of its own processes reach it."""

BOOT = """\
set -e
hostname "$1"
image=$2 script=$3 python=$4
mkdir -p /run/keep && mount -t tmpfs tmpfs /var/tmp
mkdir /var/tmp/root && mount -t tmpfs tmpfs /var/tmp/root
if [ -d /root/.pyenv ]; then mkdir /var/tmp/root/.pyenv && mount --bind /root/.pyenv /var/tmp/root/.pyenv; fi
mount --rbind /var/tmp/root /root
for each in /opt /run /etc/ssh; do mount -t tmpfs tmpfs "$each"; done
chmod 755 /opt /run /etc/ssh
mkdir /run/sshd && mkfifo /run/hours
cp -r "$image/root/." /root/
cat "$image/sshd_config" > /etc/ssh/sshd_config
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
/usr/sbin/sshd
PATH="$image/bin:$PATH" sh "$script" < /dev/null > /run/first-start.log 2>&1 &
exec "$python" -c "$5"
"""

SSHD_CONFIG = """\
UsePAM no
PermitRootLogin forced-commands-only
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile /run/sshd.pid
"""

POWEROFF = "#!/bin/sh\nkill -TERM 1\n"
SLEEP = "#!/bin/sh\nread -r _ < /run/hours\n"
"""The only programs that differ from those of the image, and for its first start alone."""


class Missing(Exception):
    """There can be no such hosts here; the message says why."""


@dataclass(frozen=True)
class Account:
    """The account: its directory, and what a test does to it from outside."""

    directory: Path

    @property
    def root(self) -> Path:
        """The home of root in the image; a new host has a copy."""
        return self.directory / "image/root"

    def hold(self, name: str) -> Path:
        """Hold back every answer of a command; one is given when the FIFO that is returned was written to."""
        path = self.directory / f"{name}.gate"
        os.mkfifo(path)
        return path

    def command(self, name: str) -> str:
        """A command of the provider, as its setting."""
        return shlex.join([sys.executable, str(Path(__file__).resolve()), str(self.directory), name])

    def settings(self) -> dict[str, str]:
        """The settings of the provider."""
        return {name: self.command(name) for name in COMMANDS}

    def stock(self, **machines: int) -> None:
        """Say how many machines of each kind there are; others are unknown."""
        _write(self.directory / "stock.json", machines)

    def records(self) -> list[dict[str, Any]]:
        """Every host that there ever was."""
        return [json.loads(path.read_text()) for path in sorted((self.directory / "hosts").glob("*.json"))]

    def on(self) -> list[str]:
        """The hosts that are on."""
        return [record["id"] for record in self.records() if _is_on(record)]

    @property
    def neighbour(self) -> str:
        """The address at which the hosts reach this machine."""
        return f"{json.loads((self.directory / 'account.json').read_text())['subnet']}.1"

    def notice(self, host: str) -> None:
        """Announce that a host is taken back in two minutes."""
        record = {**_record(self.directory, host), "notice_at": time.time() + 120.0}
        _write(self.directory / "hosts" / f"{host}.json", record)

    def first_pid(self, host: str) -> int:
        """The first process of a host, as this machine sees it."""
        return _first_pid(_record(self.directory, host)["pid"])

    def run(self, host: str, *argv: str) -> str:
        """Run a command on a host, as its root would; what it prints."""
        pid = str(self.first_pid(host))
        found = subprocess.run(
            ["nsenter", "-t", pid, "-m", "-u", "-n", "-p", "--", *argv],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_S,
        )
        return found.stdout

    def pass_minutes(self, host: str, minutes: int) -> None:
        """Let time pass for the watchdog of a host, as far as the host is on."""
        handle = os.open(f"/proc/{self.first_pid(host)}/root/run/hours", os.O_RDWR)
        try:
            os.write(handle, b"\n" * minutes)
            deadline = time.monotonic() + LIMIT_S
            while _unread(handle) and host in self.on():
                assert time.monotonic() < deadline, f"{host} does not look at its time"
        finally:
            os.close(handle)


@contextmanager
def account(directory: Path, *, path: str) -> Iterator[Account]:
    """An account whose hosts have an image with these directories first in the PATH. Raises Missing."""
    needed = ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", "service")
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists() or not all(map(shutil.which, needed)):
        raise Missing("hosts for rent take root, ip, unshare and an sshd")
    prefix = f"tr{os.getpid() % 1_000_000:x}{next(_COUNT)}"
    (directory / "hosts").mkdir(parents=True)
    image = directory / "image"
    (image / "bin").mkdir(parents=True)
    for name, text in (("poweroff", POWEROFF), ("sleep", SLEEP)):
        (image / "bin" / name).write_text(text)
        (image / "bin" / name).chmod(0o755)
    (image / "sshd_config").write_text(SSHD_CONFIG)
    (image / "root").mkdir()
    (image / "root/.profile").write_text(f"export PATH={path}:$PATH\n")
    if not all(_run("ip", "link", "add", f"{prefix}{each}", "type", "bridge") for each in BRIDGES):
        raise Missing("no network can be made here")
    try:
        taken = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=True).stdout
        subnets = (f"10.{180 + n // 250 % 60}.{n % 250}" for n in itertools.count(os.getpid() * 7))
        subnet = next(each for each in subnets if f" {each}." not in taken)
        _run("ip", "addr", "add", f"{subnet}.1/24", "dev", f"{prefix}b")
        for each in BRIDGES:
            _run("ip", "link", "set", f"{prefix}{each}", "up")
        _write(directory / "account.json", {"prefix": prefix, "subnet": subnet})
        made = Account(directory)
        made.stock()
        yield made
    finally:
        for record in Account(directory).records():
            _power_off(record)
            _remove_network(record)
        for each in BRIDGES:
            _run("ip", "link", "del", f"{prefix}{each}")


# --- the commands


def create(directory: Path, question: dict[str, Any]) -> object:
    """Rent out machines, all or none; the same request again returns the same."""
    own = [each for each in _records(directory) if each["request"] == question["id"]]
    if own:
        return [_thing(each) for each in own]
    stock = json.loads((directory / "stock.json").read_text())
    machine, count = question["shape"]["machine"], int(question["machines"])
    if machine not in stock:
        _refuse(UNKNOWN_SHAPE, f"there are no machines {machine}")
    used = sum(each["machine"] == machine and _is_on(each) for each in _records(directory))
    if stock[machine] - used < count:
        _refuse(NO_CAPACITY, f"{stock[machine] - used} machines {machine} are free, {count} are needed")
    script = directory / f"{question['id']}.sh"
    script.write_text(question["script"])
    return [_thing(_begin(directory, question, script)) for _ in range(count)]


def list_things(directory: Path, question: dict[str, Any]) -> object:
    """Everything in the account."""
    return [_thing(each) for each in _records(directory)]


def delete(directory: Path, question: dict[str, Any]) -> object:
    """End these machines; one that is gone already is no error."""
    for each in question["things"]:
        with suppress(FileNotFoundError):
            record = _record(directory, each["id"])
            _power_off(record)
            _remove_network(record)
    return []


COMMANDS = {"create": create, "list": list_things, "delete": delete}


def main() -> None:
    directory, name = Path(sys.argv[1]), sys.argv[2]
    question = json.load(sys.stdin)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = COMMANDS[name](directory, question)
    if (
        gate := directory / f"{name}.gate"
    ).exists():  # a FIFO of the test: the answer waits until it is closed
        gate.read_bytes()
    sys.stdout.write(json.dumps(answer) + "\n")


# --- inside


def _begin(directory: Path, question: dict[str, Any], script: Path) -> dict[str, Any]:
    """Switch on one more host, once it is recorded."""
    settings = json.loads((directory / "account.json").read_text())
    number = len(_records(directory)) + 1
    name, space = f"host{number}", f"{settings['prefix']}n{number}"
    address, inner = f"{settings['subnet']}.{10 + number}", f"{INNER}.{10 + number}"
    record = {
        **{key: question[key] for key in ("owner", "run")},
        **{"id": name, "request": question["id"], "machine": question["shape"]["machine"]},
        **{"space": space, "address": address, "inner_address": inner, "since": time.time(), "pid": 0},
    }
    _write(directory / "hosts" / f"{name}.json", record)
    hosts = Path("/etc/netns", space)
    hosts.mkdir(parents=True)
    (hosts / "hosts").write_text(f"127.0.0.1 localhost\n{inner} {name}\n")
    inside = ("ip", "netns", "exec", space, "ip")
    for argv in (
        ("ip", "netns", "add", space),
        *(
            argv
            for bridge, device, own in (("b", "eth0", address), ("i", "eth1", inner))
            for argv in (
                (
                    "ip",
                    "link",
                    "add",
                    f"{space}{bridge}",
                    "type",
                    "veth",
                    "peer",
                    "name",
                    device,
                    "netns",
                    space,
                ),
                ("ip", "link", "set", f"{space}{bridge}", "master", f"{settings['prefix']}{bridge}", "up"),
                (*inside, "addr", "add", f"{own}/24", "dev", device),
                (*inside, "link", "set", device, "up"),
            )
        ),
        (*inside, "link", "set", "lo", "up"),
    ):
        subprocess.run(argv, check=True, capture_output=True)
    apart = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (directory / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [
                *("ip", "netns", "exec", space, *apart, "sh", "-c", BOOT, "sh"),
                *(name, str(directory / "image"), str(script), sys.executable, INIT),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    record["pid"] = process.pid
    _write(directory / "hosts" / f"{name}.json", record)
    return record


def _thing(record: dict[str, Any]) -> dict[str, Any]:
    on = _is_on(record)
    thing = {key: record.get(key) for key in ("id", "owner", "request", "run", "since", "notice_at")}
    addresses = {key: record[key] for key in ("address", "inner_address")}
    return {**thing, "state": "running" if on else "gone", **(addresses if on else {})}


def _is_on(record: dict[str, Any]) -> bool:
    """Whether a host is on; its processes may have no parent that waits for them."""
    try:
        text = Path(f"/proc/{record['pid']}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def _power_off(record: dict[str, Any]) -> None:
    if record["pid"] and _is_on(record):
        os.kill(record["pid"], signal.SIGKILL)
        deadline = time.monotonic() + LIMIT_S
        while _is_on(record) and time.monotonic() < deadline:
            pass


def _remove_network(record: dict[str, Any]) -> None:
    _run("ip", "netns", "del", record["space"])
    shutil.rmtree(Path("/etc/netns", record["space"]), ignore_errors=True)


def _first_pid(parent: int) -> int:
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


def _records(directory: Path) -> list[dict[str, Any]]:
    return Account(directory).records()


def _record(directory: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "hosts" / f"{name}.json").read_text())
    return found


def _write(path: Path, document: object) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document))
    draft.rename(path)


def _unread(handle: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(handle, termios.FIONREAD, count)
    return count[0]


def _refuse(code: int, text: str) -> None:
    sys.stderr.write(text + "\n")
    raise SystemExit(code)


def _run(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
