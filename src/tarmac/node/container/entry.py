"""The way into a container that stands. Made by `root`; called for every process of its attempt.

A container of a program other than ours (see `apptainer`) is entered by that program.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Mapping, NamedTuple, Optional, Protocol, Sequence

from tarmac.node.files import untrusted
from tarmac.node.kernel import syscalls

_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31)
"""Of the powers of root those that programs for packages need: owners and modes of files (chown,
dac_override, fowner, fsetid, setfcap), its own processes under other users (kill, setgid, setuid, setpcap),
net_bind_service, sys_chroot. None of them reaches beyond what the container is shown."""

_BASH, _SHELL, _TRUE = "bash", "sh", "true"


class AnyContainer(Protocol):
    """What a runner does with a container, whoever made it.

    `env` are the variables of its image, `numbers` what slots are called in it (see `devices`); `key` tells
    its image from any other, `digest` is that of the image ("": it has none), which stays
    on the node as long as `use` is open.
    """

    @property
    def env(self) -> Mapping[str, str]: ...

    @property
    def numbers(self) -> Mapping[int, int]: ...

    @property
    def key(self) -> str: ...

    @property
    def digest(self) -> str: ...

    def enter(self) -> None:
        """In the process that is to be the command: go in. Raises OSError."""
        ...

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """There: what is executed for a command, with which environment, from which directory."""
        ...

    def close(self) -> None:
        """Let go of it: nothing runs in it any more."""
        ...

    def clear(self, place: str) -> None:
        """After that: remove what was written above the image, in `place`. It may take a while."""
        ...


class Container(NamedTuple):
    """A container that stands, held open by its namespaces (`users` None: it has none of its own)."""

    mounts: int
    users: Optional[int]
    env: Mapping[str, str]
    numbers: Mapping[int, int]
    key: str
    digest: str = ""
    use: Optional[int] = None

    def enter(self) -> None:
        """In the process that is to be the command: go in, without what it must not have. Raises OSError."""
        if self.users is not None:
            syscalls.join_namespace(self.users, syscalls.CLONE_NEWUSER)
        syscalls.join_namespace(self.mounts, syscalls.CLONE_NEWNS)
        syscalls.limit_capabilities(_CAPABILITIES)
        syscalls.renounce_privileges()

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """Inside: what is executed for a command. Scripts are bash's; a small image has another shell."""
        leave_if_true(argv, env)
        return with_shell(argv, env), env, directory

    def close(self) -> None:
        """Let go of it: it is gone with its last process."""
        for handle in (self.mounts, self.use):
            if handle is not None:
                os.close(handle)

    def clear(self, place: str) -> None:
        """Remove what was written above the image; as the root of its users, whose files may be there."""
        if self.users is None:
            _remove(place)
            return
        pid = os.fork()
        if pid == 0:
            try:
                syscalls.join_namespace(self.users, syscalls.CLONE_NEWUSER)
                _remove(place)
            finally:
                os._exit(0)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        os.close(self.users)


def leave_if_true(argv: Sequence[str], env: Mapping[str, str], root: str = "") -> None:
    """In the process that is to be the command: be `true`, which needs no program. Pulls ahead do no more."""
    if list(argv) == [_TRUE] and not is_there(_TRUE, env, root):
        os._exit(0)


def with_shell(argv: Sequence[str], env: Mapping[str, str], root: str = "") -> Sequence[str]:
    """The command, with `sh` for the `bash` that a root file system has not."""
    if argv[0] == _BASH and not is_there(_BASH, env, root) and is_there(_SHELL, env, root):
        return (_SHELL, *argv[1:])
    return argv


def is_there(command: str, env: Mapping[str, str], root: str = "") -> bool:
    """Whether the PATH of an environment has a command, below a root file system."""
    return any(os.path.exists(os.path.join(root + place, command)) for place in os.get_exec_path(dict(env)))


def _remove(place: str) -> None:
    with suppress(OSError):
        untrusted.remove_tree(place)
