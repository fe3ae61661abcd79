"""Enters an existing container. Made by `root`; called for every process of its attempt.

Another program's container (see `apptainer`) is entered by that program.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Mapping, NamedTuple, Optional, Protocol, Sequence

from tarmac.node.files import untrusted
from tarmac.node.kernel import syscalls

_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31)
"""The capabilities that package managers need: owners and modes of files (chown, dac_override, fowner,
fsetid, setfcap), their own processes under other users (kill, setgid, setuid, setpcap), net_bind_service,
sys_chroot. None of them has an effect outside the container.
"""

BASH, _SHELL, _TRUE = "bash", "sh", "true"


class ContainerImage(NamedTuple):
    """The image of a container: its variables, and the numbers of slots in it (see `making.Devices`).

    `key` distinguishes it from any other; `digest` is "" for a directory; it stays on the node while the
    descriptor `use` is open.
    """

    env: Mapping[str, str]
    numbers: Mapping[int, int]
    key: str
    digest: str = ""
    use: Optional[int] = None

    def release(self) -> None:
        """Release the image, which may be removed from now on."""
        if self.use is not None:
            os.close(self.use)


class AnyContainer(Protocol):
    """A runner's interface to a container of any driver."""

    @property
    def image(self) -> ContainerImage:
        """The image as the container's processes see it."""
        ...

    def enter(self) -> None:
        """Enter the container from the process that becomes the command. Raises OSError."""
        ...

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """Inside: the program for a command, its environment and its directory.

        Raises OSError for a missing command.
        """
        ...

    def close(self) -> None:
        """Release the container after its last process."""
        ...

    def clear(self, place: str) -> None:
        """Afterwards, remove the files written above the image, in `place`. This may take a while."""
        ...


class Container(NamedTuple):
    """An existing container, held by its open namespaces (`users` None: it has no user namespace)."""

    mounts: int
    users: Optional[int]
    image: ContainerImage

    def enter(self) -> None:
        """Enter from the process that becomes the command, dropping privileges. Raises OSError."""
        if self.users is not None:
            syscalls.join_namespace(self.users, syscalls.CLONE_NEWUSER)
        syscalls.join_namespace(self.mounts, syscalls.CLONE_NEWNS)
        syscalls.limit_capabilities(_CAPABILITIES)
        syscalls.renounce_privileges()

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """Inside: the program for a command. Scripts need bash; small images have another shell."""
        leave_if_true(argv, env)
        return with_shell(argv, env), env, directory

    def close(self) -> None:
        """Release the container, which ends with its last process."""
        os.close(self.mounts)
        self.image.release()

    def clear(self, place: str) -> None:
        """Remove the files written above the image, as root of its user namespace, whose users own them."""
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
    """If the command is `true`, exit here: it needs no program, and pulls ahead run nothing else."""
    if list(argv) == [_TRUE] and not is_there(_TRUE, env, root):
        os._exit(0)


def with_shell(argv: Sequence[str], env: Mapping[str, str], root: str = "") -> Sequence[str]:
    """The command, with `sh` instead of a `bash` that the root file system lacks."""
    if argv[0] == BASH and not is_there(BASH, env, root) and is_there(_SHELL, env, root):
        return (_SHELL, *argv[1:])
    return argv


def is_there(command: str, env: Mapping[str, str], root: str = "") -> bool:
    """Whether a command is on the PATH of an environment, below a root file system."""
    return any(os.path.exists(os.path.join(root + place, command)) for place in os.get_exec_path(dict(env)))


def _remove(place: str) -> None:
    with suppress(OSError):
        untrusted.remove_tree(place)
