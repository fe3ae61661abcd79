"""System users: the account of a run's processes, and the rights by which the runner uses the run's files.

Called by the runner of a run that runs as a system user, by its sidecar and by sessions beside its workers;
and for the far ends of hosts that work as a system user (`is_own`, `own_home`, `execute`).
`become` changes a process for good, before it executes a command of the run. The runner and the sidecar stay
root, so that no process of the run may signal or trace them; `act_as` gives them the user's rights to files,
so that no link or directory that the user replaces leads them further than the user could go.
"""

from __future__ import annotations

import errno
import os
import pwd
from contextlib import ContextDecorator, contextmanager, suppress
from pathlib import PurePath
from typing import Iterator, NamedTuple, Optional, Tuple

from tarmac.node.kernel import syscalls

LEAST_UID = 1000
"""Accounts with lower numbers are the system's own, by the default of Linux."""

_ROOT_GROUP = 0
_NO_LOGIN = ("nologin", "false")


class Refused(Exception):
    """No process may become this user here; the text is the reason, for people."""


class SystemUser(NamedTuple):
    """An account of this machine, with the groups in its own database."""

    name: str
    uid: int
    gid: int
    groups: Tuple[int, ...]
    home: str
    shell: str

    def may_pass(self, directory: str) -> bool:
        """Whether the mode of a directory lets the user pass through it."""
        found = os.stat(directory)
        if found.st_uid == self.uid:
            return bool(found.st_mode & 0o100)
        return bool(found.st_mode & (0o010 if found.st_gid in (self.gid, *self.groups) else 0o001))


def find(name: str, least_uid: int = LEAST_UID) -> SystemUser:
    """The account of this name; raises Refused if there is none that may run programs of people."""
    if os.geteuid() != 0:
        raise Refused("only root can start processes of another system user")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Refused(f"this machine has no system user {name}") from None
    if found.pw_uid < max(least_uid, 1):
        accounts = f"runs use accounts from uid {max(least_uid, 1)}"
        raise Refused(f"{name} is an account of the system (uid {found.pw_uid}): {accounts}")
    if os.path.basename(found.pw_shell) in _NO_LOGIN:
        raise Refused(f"{name} may not log in on this machine (its shell is {found.pw_shell})")
    groups = tuple(sorted({*os.getgrouplist(name, found.pw_gid)}))
    if _ROOT_GROUP in groups:
        raise Refused(f"{name} is in the group of root")
    return SystemUser(name, found.pw_uid, found.pw_gid, groups, found.pw_dir, found.pw_shell)


def is_own(name: str) -> bool:
    """Whether this is the account of this process, which is not root: its programs are that user's anyway."""
    with suppress(KeyError):
        return os.geteuid() != 0 and pwd.getpwnam(name).pw_uid == os.geteuid()
    return False


def own_home(home: str, name: str, least_uid: int) -> None:
    """Make a private directory of this process's user; raises ValueError if that user has no right to it.

    Also if this is another user or an account of the system, or if a third user could replace the directory.
    """
    uid = os.geteuid()
    if not is_own(name):
        raise ValueError(f"the login is that of uid {uid}, not of {name}")
    if uid < least_uid or _ROOT_GROUP in os.getgroups():
        raise ValueError(f"{name} is an account of the system (uid {uid})")
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        for directory in (home, *map(str, PurePath(home).parents)):
            if os.stat(directory).st_uid not in ((uid,) if directory == home else (uid, 0)):
                raise ValueError(f"{directory} belongs to another user")
        os.chmod(home, 0o700)
    except PermissionError as problem:
        raise ValueError(f"{problem.filename}: {problem.strerror}") from None


def execute(name: str, least_uid: int, command: str) -> None:
    """Become a user for good, and execute a command of the shell in an environment made from nothing."""
    user = find(name, least_uid)
    kept = {name: os.environ[name] for name in ("LANG", "SLURM_CONF") if name in os.environ}
    own = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, "SHELL": user.shell}
    become(user)
    os.execve("/bin/bash", ["bash", "-c", command], {"PATH": os.defpath, **kept, **own})


def become(user: SystemUser) -> None:
    """Make this process the user's for good; raises OSError if the kernel does not confirm it."""
    os.setgroups(user.groups)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    found = (os.getresuid(), os.getresgid(), tuple(sorted(os.getgroups())))
    if found != ((user.uid,) * 3, (user.gid,) * 3, user.groups) or syscalls.file_user() != user.uid:
        raise PermissionError(errno.EPERM, f"the kernel did not make a process that of {user.name}: {found}")
    if syscalls.has_capabilities():
        raise PermissionError(errno.EPERM, f"a process of {user.name} kept rights of root")
    syscalls.renounce_privileges()


_acting: Optional[Tuple[SystemUser, Tuple[int, ...]]] = None

_OF_RUNNER = (syscalls.CAP_DAC_READ_SEARCH, syscalls.CAP_SIGNAL)


def act_as(user: SystemUser, *, as_runner: bool) -> None:
    """Use files with the user's rights alone from now on, in this thread and those that it starts.

    A runner may also pass through directories of others, on the way to the run's own, and end its processes.
    """
    global _acting  # noqa: PLW0603 - a state of the process
    _acting = (user, _OF_RUNNER if as_runner else ())
    os.setgroups(user.groups)
    _act()


class as_server(ContextDecorator):
    """Use files, and everything else, with the rights of this process's own user inside the block."""

    def __enter__(self) -> None:
        self._acts = _acting is not None and syscalls.file_user() != os.geteuid()
        if self._acts:
            _act_as_oneself()

    def __exit__(self, *_: object) -> None:
        if self._acts:
            _act()

    def _recreate_cm(self) -> as_server:
        """One for each call of a decorated function: several threads may call it."""
        return as_server()


@contextmanager
def with_files_of(user: SystemUser) -> Iterator[None]:
    """Use files with the rights of this user inside the block; for a process that becomes the user next."""
    os.setgroups(user.groups)
    syscalls.set_file_user(user.uid, user.gid)
    syscalls.use_capabilities(())  # also no right to follow the links of other processes in /proc
    try:
        yield
    finally:
        _act_as_oneself()


def _act() -> None:
    assert _acting is not None
    user, capabilities = _acting
    syscalls.set_file_user(user.uid, user.gid)
    syscalls.use_capabilities(capabilities)


def _act_as_oneself() -> None:
    syscalls.set_file_user(os.geteuid(), os.getegid())
    syscalls.use_capabilities(None)
