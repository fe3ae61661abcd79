"""A process namespace for one node's part of an attempt, where the kernel allows one.

Called by `warm` and `entry`, which make runners. A runner becomes the first process of its namespace: what it
starts sees no process but its own, reaches none but its own, and when the runner ends, in whatever way, the
kernel ends all that is left of them. To the machine they are processes like others. As root, or in a user
namespace that maps only the user itself.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Callable, NamedTuple, NoReturn, Optional

from tarmac.node.kernel import procfs, syscalls
from tarmac.node.kernel.kernelfiles import lines

AS_ROOT = "as root"
AS_USER = "as user"

NAME = "tarmac"
"""What a runner is called: whoever waits until no `python` runs any more does not wait for it."""

_RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_MOST = "/proc/sys/user/max_user_namespaces"
_PROC_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
_WORKS = b"works"


class Way(NamedTuple):
    """How processes are set apart here: AS_ROOT, AS_USER, or None with the reason."""

    by: Optional[str]
    why_not: str = ""


class _NoneLeft(OSError):
    """None can be made: not at all, or not this time."""


class ProcessNamespace(NamedTuple):
    """What the first process of a namespace knows of the machine: its own pid there, and /proc, held open."""

    pid: int
    proc: int

    def pid_of(self, child: int) -> int:
        """The machine's pid of one of our processes; its pid here, where an old kernel does not tell."""
        with suppress(OSError, ValueError, StopIteration):
            handle = os.pidfd_open(child)
            try:
                text = self._read(f"{self.pid}/fdinfo/{handle}")
            finally:
                os.close(handle)
            pid = int(next(line for line in text.splitlines() if line.startswith("Pid:")).split()[1])
            return pid if pid > 0 else child
        return child

    def _read(self, path: str) -> str:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        with open(handle, encoding="utf-8") as file:
            return file.read()


_Become = Callable[[Optional[ProcessNamespace]], NoReturn]


def find_way() -> Way:
    """Try it, in a process that is thrown away: what is allowed depends on more than can be asked for."""
    why_not = ""
    for by in (AS_ROOT, AS_USER):
        why_not = _try(by)
        if not why_not:
            return Way(by)
    return Way(None, why_not)


def fork(way: Way, become: _Become) -> int:
    """Fork a process that becomes something, the first of a namespace where there is a way; its pid.

    We stay where we are. Raises OSError when nothing can be forked.
    """
    if way.by is not None:
        with suppress(_NoneLeft):
            return _FORKS[way.by](way, become)
    pid = os.fork()
    if pid == 0:
        become(None)
    return pid


def _fork_as_root(way: Way, become: _Become) -> int:
    """Divide, fork, and turn back."""
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            divide(way)
        except OSError as error:
            raise _NoneLeft(*error.args) from error
        try:
            pid = os.fork()
            if pid == 0:
                os.close(home)
                _become_first(become)
        finally:
            syscalls.join_namespace(home, syscalls.CLONE_NEWPID)
    finally:
        os.close(home)
    return pid


def _fork_as_user(way: Way, become: _Become) -> int:
    """There is no way back for a user: one process in between divides, forks, says so and leaves."""
    hear, say = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            os.close(hear)
            divide(way)
            pid = os.fork()
            if pid == 0:
                os.close(say)
                _become_first(become)
            os.write(say, str(pid).encode())
        except OSError as error:
            os.write(say, str(error).encode())
        finally:
            os._exit(0)
    os.close(say)
    with open(hear, "rb") as heard:
        reply = heard.read().decode("utf-8", "replace")
    with suppress(ChildProcessError):  # reaped by the kernel, in a warm parent
        os.waitpid(between, 0)
    if not reply.isdigit():
        raise _NoneLeft(reply or "the process in between ended early")
    return int(reply)


_FORKS = {AS_ROOT: _fork_as_root, AS_USER: _fork_as_user}


def _become_first(become: _Become) -> NoReturn:
    try:
        become(enter())
    finally:
        os._exit(1)


def divide(way: Way) -> None:
    """From now on the next process that is forked is the first of a namespace. Raises OSError."""
    if way.by == AS_USER:
        become_own_root(syscalls.CLONE_NEWPID)
    else:
        syscalls.unshare(syscalls.CLONE_NEWPID)


def enter() -> ProcessNamespace:
    """In the first process: a disk view of its own, with a /proc that shows the namespace. Raises OSError."""
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    pid = int(os.readlink("/proc/self"))
    own_disk_view()
    syscalls.mount("proc", "/proc", "proc", _PROC_FLAGS)
    procfs.rename_self(NAME)
    return ProcessNamespace(pid, proc)


def own_disk_view() -> None:
    """What the machine mounts later still shows up here; nothing mounted here ever shows up there."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)


def become_own_root(namespaces: int = 0, *, as_root: bool = False) -> None:
    """Enter a user namespace that maps only this user, and others besides. Raises OSError.

    With `as_root` it is called root in there, as images expect it.
    """
    if lines(_RESTRICTED) == ["1"]:
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
    """Why it cannot be done this way; empty: it can."""
    hear, say = os.pipe()

    def report_success(_namespace: Optional[ProcessNamespace]) -> NoReturn:
        os.write(say, _WORKS)
        os._exit(0)

    pid = os.fork()
    if pid == 0:
        try:
            _FORKS[by](Way(by), report_success)
        except OSError as error:
            os.write(say, str(error).encode())
        finally:
            os._exit(0)
    os.close(say)
    with open(hear, "rb") as heard:
        reply = heard.read()
    with suppress(ChildProcessError):  # reaped by the kernel, in a warm parent
        os.waitpid(pid, 0)
    return "" if reply == _WORKS else reply.decode("utf-8", "replace") or "its trial ended early"
