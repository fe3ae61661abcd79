"""Two system users made by root, with homes of their own. Used by the tests of runs as such users."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from shell import Shell
from tarmac.node.kernel.handles import locked
from tarmac.node.kernel.sockets import find_free_port

_COUNT = count()

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("useradd") is None, reason="only root can make system users"
)

ATTEMPTS = """
import json, os, socket, sys
found = {}
def attempt(what, act):
    try:
        found[what] = repr(act())
    except OSError as problem:
        found[what] = type(problem).__name__
"""
"""The beginning of a script that tries what its user may not do; it collects the results in `found`."""

SAVES = """
import pwd, time, tarmac
found = tarmac.latest_checkpoint()
print("found", found and (found / "step").read_text(), flush=True)
if found is None:
    with tarmac.checkpoint(step=7) as place:
        (place / "step").write_text("seven")
    print("saved", flush=True)
    while not tarmac.should_pause():
        time.sleep(0.05)
else:
    print("mine", *{pwd.getpwuid(each.stat().st_uid).pw_name for each in (found, found / "step")}, flush=True)
"""
"""A training that saves and waits to be paused, or prints the checkpoint that it found and its owners."""


@contextmanager
def two_users() -> Iterator[tuple[pwd.struct_passwd, pwd.struct_passwd]]:
    """Two accounts; the first is in a group of its own beside its main one."""
    own = f"{os.getpid()}x{next(_COUNT)}"
    names, group = [f"tarmac{letter}{own}" for letter in "ab"], f"tarmacg{own}"
    _call("groupadd", group)
    try:
        for name in names:
            _call("useradd", "--create-home", "--shell", "/bin/bash", "--user-group", name)
            Path(f"/home/{name}").chmod(0o700)
        _call("usermod", "--append", "--groups", group, names[0])
        yield pwd.getpwnam(names[0]), pwd.getpwnam(names[1])
    finally:
        for name in names:
            _call("userdel", "--force", "--remove", name, check=False)  # a last process may be ending
        _call("groupdel", group, check=False)


def _call(*argv: str, check: bool = True) -> None:
    """Run a program that changes accounts: one at a time on this machine, or it finds their files locked."""
    with unchanged_accounts():
        subprocess.run(argv, check=check, capture_output=True)


@contextmanager
def unchanged_accounts() -> Iterator[None]:
    """No other test changes accounts of this machine inside the block."""
    with locked(f"{tempfile.gettempdir()}/tarmac-test-accounts.lock"):
        yield


def as_user(account: pwd.struct_passwd) -> tuple[str, ...]:
    """What becomes a user, before a command."""
    return ("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups")


@dataclass(frozen=True, slots=True)
class Member(Shell):
    """A person with an account on the server, whose runs are those of a system user."""

    url: str
    token: str
    account: pwd.struct_passwd

    def environment(self, **variables: str) -> dict[str, str]:
        own = Shell.environment(self, **variables)
        del own["TARMAC_HOME"]
        return {**own, "TARMAC_URL": self.url, "TARMAC_TOKEN": self.token}

    def output(self, script: str, *arguments: str) -> str:
        """What a run of this script prints, which ends well."""
        return self.tarmac("run", *arguments, "--", "bash", "-c", script, code=0).stdout


class Lab(NamedTuple):
    """A server of root, its admin, and two members."""

    admin: Shell
    ann: Member
    bob: Member


@contextmanager
def lab(root: Path, *, settings: str = "") -> Iterator[Lab]:
    """A server of root, with more settings, and two members whose runs run as system users of their own."""
    port = find_free_port()
    admin = Shell(root / "home", root / "admin")
    with ExitStack() as closing:
        for directory in (admin.home, admin.directory):
            directory.mkdir()
        accounts = closing.enter_context(two_users())
        (admin.home / "settings.toml").write_text(
            f'[server]\nlisten = "127.0.0.1:{port}"\n[[local]]\nslots = 4\n[artifacts]\npatience = "3s"\n'
            + settings
        )
        closing.callback(admin.close)
        admin.tarmac("users", "add", "root", code=0)
        members = []
        for name, account in zip(("ann", "bob"), accounts, strict=True):
            admin.tarmac("users", "add", name, "--runs-as", account.pw_name, code=0)
            token = admin.tarmac("tokens", "add", "tests", "--user", name, code=0).stdout.split()[0]
            (root / name).mkdir()
            members.append(Member(admin.home, root / name, f"http://127.0.0.1:{port}", token, account))
        yield Lab(admin, *members)


def worker_of(member: Member, run: str) -> int:
    """The pid of the only worker of a run."""
    events = (member.home / "runs" / run).glob("attempts/1/nodes/*/events.jsonl")
    lines = [json.loads(line) for path in events for line in path.read_text().splitlines()]
    return next(int(line["pid"]) for line in lines if line["kind"] == "worker_started")


def processes_of(member: Member) -> dict[int, str]:
    """The command lines of a system user's processes."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid == member.account.pw_uid:
                found[int(path.name)] = (path / "cmdline").read_text()
        except OSError:
            continue
    return found
