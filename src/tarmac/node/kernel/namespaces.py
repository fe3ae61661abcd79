"""A process namespace for one node's part of an attempt, if the kernel allows one.

Called by `warm` and `__main__`, which make runners. A runner becomes the first process of its namespace: its
descendants see and reach only each other, and after the runner's end, for whatever reason, the kernel ends
all of them. For the machine they are ordinary processes. The namespace is made as root, or in a user
namespace that maps only the user itself.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import Callable, NamedTuple, NoReturn, Optional

from tarmac.node.kernel import handles, procfs, syscalls

AS_ROOT = "as root"
AS_USER = "as user"

NAME = "tarmac"
"""The process name of a runner, so that a wait for the end of every `python` does not include it."""

_RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_MOST = "/proc/sys/user/max_user_namespaces"
_PROC_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
_WORKS = "works"


class Way(NamedTuple):
    """The method of separating processes here: AS_ROOT, AS_USER, or None with the reason."""

    by: Optional[str]
    why_not: str = ""


class _NoneLeft(OSError):
    """No namespace can be made, now or at all."""


class ProcessNamespace(NamedTuple):
    """Access of the first process of a namespace to the machine: its own pid there, and an open /proc."""

    pid: int
    proc: int

    def pid_of(self, child: int) -> int:
        """The machine's pid of a child process; its pid here, if an old kernel does not report it."""
        with suppress(OSError, ValueError):
            children = f"/proc/self/fd/{self.proc}/{self.pid}/task/{self.pid}/children"
            return int(procfs.content_again(children))  # the only one, as usual
        with suppress(OSError, ValueError), handles.closing(os.pidfd_open(child)) as handle:
            found = procfs.field(f"/proc/self/fd/{self.proc}/{self.pid}/fdinfo/{handle}", "Pid")
            pid = int(found or 0)
            return pid if pid > 0 else child
        return child


_Become = Callable[[Optional[ProcessNamespace]], NoReturn]


def find_way() -> Way:
    """Try the methods in a temporary process: no query reveals everything that permission depends on."""
    for by in (AS_ROOT, AS_USER):
        if not (why_not := _try(by)):
            return Way(by)
    return Way(None, why_not)


def fork(way: Way, become: _Become) -> int:
    """Fork a process that calls `become`, the first of a namespace if possible; returns its pid.

    The caller keeps its namespaces. Raises OSError if the fork fails.
    """
    if way.by is not None:
        with suppress(_NoneLeft):
            return _FORKS[way.by](way, become)
    return handles.fork(partial(become, None))


def _fork_as_root(way: Way, become: _Become) -> int:
    """Unshare, fork, and return to the old namespaces."""
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    with ExitStack() as afterwards:
        afterwards.callback(os.close, home)
        try:
            divide(way)
        except OSError as error:
            raise _NoneLeft(*error.args) from error
        afterwards.callback(syscalls.join_namespace, home, syscalls.CLONE_NEWPID)
        return handles.fork(partial(_become_first, become, home))


def _fork_as_user(way: Way, become: _Become) -> int:
    """A user cannot return: a process in between unshares, forks, reports the pid and ends."""

    def report_pid(say: int) -> None:
        divide(way)
        pid = handles.fork(partial(_become_first, become, say))
        os.write(say, str(pid).encode())

    reply = reply_of(report_pid)
    if not reply.isdigit():
        raise _NoneLeft(reply or "the process in between ended early")
    return int(reply)


def reply_of(report: Callable[[int], object]) -> str:
    """The text that `report` writes in a temporary process to the descriptor that it gets; or its OSError."""

    def act(say: int) -> None:
        try:
            report(say)
        except OSError as error:
            os.write(say, str(error).encode())

    pid, reply = handles.fork_to_reply(act)
    with suppress(ChildProcessError):  # reaped by the kernel, in a warm parent
        os.waitpid(pid, 0)
    return reply.decode("utf-8", "replace")


_FORKS = {AS_ROOT: _fork_as_root, AS_USER: _fork_as_user}


def _become_first(become: _Become, unneeded: int) -> NoReturn:
    os.close(unneeded)
    become(enter())


def divide(way: Way) -> None:
    """Make the next forked process the first of a namespace. Raises OSError."""
    if way.by == AS_USER:
        become_own_root(syscalls.CLONE_NEWPID)
    else:
        syscalls.unshare(syscalls.CLONE_NEWPID)


def enter() -> ProcessNamespace:
    """In the first process: enter a disk view of its own, with a /proc for the namespace. Raises OSError."""
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    pid = int(os.readlink("/proc/self"))
    own_disk_view()
    syscalls.mount("proc", "/proc", "proc", _PROC_FLAGS)
    syscalls.rename_self(NAME)
    return ProcessNamespace(pid, proc)


def own_disk_view() -> None:
    """Enter a view that shows later mounts of the machine, while mounts made here never appear there."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)


def become_own_root(namespaces: int = 0, *, as_root: bool = False) -> None:
    """Enter a user namespace that maps only this user, and the given others. Raises OSError.

    With `as_root` the user is called root inside, as images expect.
    """
    if procfs.lines(_RESTRICTED) == ["1"]:
        raise PermissionError(errno.EPERM, f"users may not make namespaces here ({_RESTRICTED})")
    user, group = os.geteuid(), os.getegid()
    inside = (0, 0) if as_root else (user, group)
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER | namespaces)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        message = f"users may make no namespaces here, or no more of them ({_MOST})"
        raise PermissionError(errno.EPERM, message) from None
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inside[0]} {user} 1"),
        ("gid_map", f"{inside[1]} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def _try(by: str) -> str:
    """Why this method fails here; empty if it works."""

    def make(say: int) -> None:
        def report_success(_namespace: Optional[ProcessNamespace]) -> NoReturn:
            os.write(say, _WORKS.encode())
            os._exit(0)

        _FORKS[by](Way(by), report_success)

    reply = reply_of(make)
    return "" if reply == _WORKS else reply or "its trial ended early"
