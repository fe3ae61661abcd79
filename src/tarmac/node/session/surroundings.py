"""The surroundings of a worker: its namespaces, control groups, limits, directory and variables.

Called by `serving`. Descriptors opened outside hold all of it, because inside /proc and
paths differ. A descriptor of /proc/PID identifies that very process, even after a reuse of its pid.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Any, NamedTuple, Optional, Sequence

from tarmac.node.attempt import protocol
from tarmac.node.kernel import syscalls, system_users
from tarmac.node.kernel.procfs import lines
from tarmac.node.kernel.system_users import SystemUser

_NAMESPACES = {
    "user": 0x10000000,
    "cgroup": 0x02000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "net": 0x40000000,
    "pid": 0x20000000,
    "mnt": 0x00020000,
}
"""In the order of entering: a process in the first may enter the others."""

_OUTER = "outer"
"""The user namespace from which the process namespace can be entered, if the worker is in a container."""

_FROM_OUTER = (_OUTER, "pid", "user", "cgroup", "ipc", "uts", "net", "mnt")
_NETWORK = ("user", "net")
_GROUPS = "/sys/fs/cgroup"
_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


class Refused(Exception):
    """The session cannot begin; the text is the reason, for people."""


_GONE = "the worker has ended"


class Surroundings(NamedTuple):
    """The surroundings of one worker, held open; `capabilities` are its maximum (None: the session's), and
    `user` is the system user of its run."""

    process: int
    root: int
    directory: int
    namespaces: dict[str, int]
    groups: tuple[int, ...]
    closed_groups: tuple[str, ...]
    limits: dict[int, tuple[int, int]]
    env: dict[str, str]
    capabilities: Optional[int]
    user: Optional[SystemUser] = None

    def worker_lives(self) -> bool:
        """Whether the worker has not ended."""
        with suppress(OSError):
            text = _read(self.process, "stat")
            return text[text.rindex(b")") + 2 : text.rindex(b")") + 3] not in (b"Z", b"X")
        return False

    def enter(self) -> None:
        """Enter the namespaces; the process namespace applies to later forks. Raises OSError."""
        self._join(_FROM_OUTER if _OUTER in self.namespaces else tuple(_NAMESPACES))

    def enter_network(self) -> None:
        """Enter the network namespace alone. Raises OSError."""
        if "net" in self.namespaces:
            self._join(_NETWORK)

    def settle(self) -> None:
        """Apply the rest from inside, in the process that becomes the command. Raises OSError."""
        for group in self.groups:
            os.write(group, b"0")  # the writing process
        for number, limit in self.limits.items():
            with suppress(OSError, ValueError):
                resource.setrlimit(number, limit)
        if not os.path.sameopenfile(self.root, os.open("/", os.O_PATH | os.O_CLOEXEC)):
            os.fchdir(self.root)
            os.chroot(".")
        os.fchdir(self.directory)
        if self.user is not None:
            system_users.become(self.user)
        elif self.capabilities is not None:
            kept = [number for number in range(64) if self.capabilities >> number & 1]
            syscalls.limit_capabilities(kept)
            syscalls.renounce_privileges()
        if not self.worker_lives():
            raise ProcessLookupError(_GONE)

    def _join(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name in self.namespaces:
                kind = _NAMESPACES["user" if name == _OUTER else name]
                syscalls.join_namespace(self.namespaces[name], kind)


def surroundings_of(pid: int, token: str, *, runs_as: Optional[Sequence[Any]] = None) -> Surroundings:
    """The surroundings of this worker, if its environment has the token. Raises Refused, or OSError.

    `runs_as`: the system user of its run, whom a command becomes, whoever owns the process.
    """
    try:
        user = None if runs_as is None else system_users.find(*runs_as)
        process = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        env = _environment(_read(process, "environ"))
        if env.get(protocol.TOKEN_VARIABLE) != token:
            raise Refused(_GONE)
        groups, closed = _groups(_read(process, "cgroup"))
        found = Surroundings(
            process=process,
            root=os.open("root", os.O_PATH | os.O_CLOEXEC, dir_fd=process),
            directory=os.open("cwd", os.O_PATH | os.O_CLOEXEC, dir_fd=process),
            namespaces=_other_namespaces(process),
            groups=groups,
            closed_groups=closed,
            limits=_limits(pid),
            env=env,
            capabilities=_capabilities(_read(process, "status")),
            user=user,
        )
    except system_users.Refused as problem:
        raise Refused(str(problem)) from None
    except (FileNotFoundError, ProcessLookupError):
        raise Refused(_GONE) from None
    if not found.worker_lives():
        raise Refused(_GONE)
    return found


def _environment(text: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in text.split(b"\0"))
    return {name: value for name, equals, value in pairs if name and equals}


def _other_namespaces(process: int) -> dict[str, int]:
    """The worker's namespaces that differ from this process's."""
    found = {}
    for name in _NAMESPACES:
        with suppress(FileNotFoundError):  # a kernel without them
            own = os.stat(f"/proc/self/ns/{name}")
            handle = os.open(f"ns/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
            if os.path.samestat(own, os.fstat(handle)):
                os.close(handle)
            else:
                found[name] = handle
    if "pid" in found and "user" in found:
        outer = syscalls.owner_of_namespace(found["pid"])
        own = os.stat("/proc/self/ns/user")
        known = (own, os.fstat(found["user"]))
        if any(os.path.samestat(os.fstat(outer), other) for other in known):
            os.close(outer)
        else:
            found[_OUTER] = outer
    return found


def _capabilities(status: bytes) -> Optional[int]:
    """The worker's maximum of capabilities, if it has renounced others; None: no limit."""
    fields = dict(line.split(b":", 1) for line in status.splitlines() if b":" in line)
    if fields.get(b"NoNewPrivs", b"0").strip() != b"1":
        return None
    return int(fields[b"CapBnd"], 16)


def _groups(text: bytes) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Descriptors for joining the worker's other groups; and the groups that deny it."""
    own = set(lines("/proc/self/cgroup"))
    handles, closed = [], []
    for line in text.decode("utf-8", "surrogateescape").splitlines():
        if line in own:
            continue
        path = _members(line)
        try:
            handles.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            closed.append(os.path.dirname(path))
    return tuple(handles), tuple(closed)


def _members(line: str) -> str:
    """The file to which a process writes to join a group, by its line in /proc/PID/cgroup."""
    _, controllers, path = line.split(":", 2)
    if controllers:
        tree = os.path.join(_GROUPS, controllers.replace("name=", ""))
    else:
        unified = os.path.join(_GROUPS, "unified")
        tree = unified if os.path.isdir(unified) else _GROUPS
    return os.path.join(tree, path.lstrip("/"), "cgroup.procs")


def _limits(pid: int) -> dict[int, tuple[int, int]]:
    found = {}
    for number in _LIMITS:
        with suppress(OSError, ValueError):
            found[number] = resource.prlimit(pid, number)
    return found


def _read(directory: int, name: str) -> bytes:
    handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    with open(handle, "rb") as file:
        return file.read()
