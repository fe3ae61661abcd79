"""Enters a container. Made by `making`; called for every process of its attempt.

Where users may not make namespaces, Apptainer starts the processes. Each command is one `apptainer exec` of
the image's files in one directory (see `Images.flat_root`), or of an image of Apptainer's own, in which
nothing can be looked up beforehand. Writes outside the attempt's directories stay in memory and are private
to the command: steps and workers share only those directories. The command's processes end with it, in a
process namespace of their own.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from functools import partial
from typing import Mapping, NamedTuple, Optional, Sequence, Union

from tarmac.node.files import untrusted
from tarmac.node.kernel import handles, syscalls
from tarmac.node.kernel.mountplan import Bind

_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31)
"""The capabilities that package managers need: owners and modes of files (chown, dac_override, fowner,
fsetid, setfcap), their own processes under other users (kill, setgid, setuid, setpcap), net_bind_service,
sys_chroot. None of them has an effect outside the container.
"""

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_BASH, _SHELL, _TRUE = "bash", "sh", "true"
_EXEC = ("--silent", "exec", "--containall", "--no-home", "--no-privs", "--writable-tmpfs")
_FIND_SHELL = 'if command -v bash >/dev/null; then exec bash "$@"; fi; exec sh "$@"'
_OWN = ("PATH", "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "TMPDIR")
"""The runner's variables that Apptainer needs; none of them is visible in the container."""


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

    def visible(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variable of the visible slots, with their numbers inside the container."""
        slots = env.get(_VISIBLE, "").split(",")
        if not all(slot.isdigit() and int(slot) in self.numbers for slot in slots):
            return {}
        return {_VISIBLE: ",".join(str(self.numbers[int(slot)]) for slot in slots)}

    def release(self) -> None:
        """Release the image, which may be removed from now on."""
        if self.use is not None:
            os.close(self.use)


class Container(NamedTuple):
    """An existing container, held by its open namespaces (`users` None: it has no user namespace).

    It and `Apptainer` have the same methods: the interface of a runner to a container.
    """

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
        _leave_if_true(argv, env)
        return _with_shell(argv, env), env, directory

    def close(self) -> None:
        """Release the container, which ends with its last process."""
        os.close(self.mounts)
        self.image.release()

    def clear(self, place: str) -> None:
        """Remove the files written above the image, as root of its user namespace, whose users own them."""
        if self.users is None:
            untrusted.discard_tree(place)
            return
        pid = handles.fork(partial(_discard_inside, self.users, place))
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        os.close(self.users)


class Apptainer(NamedTuple):
    """The root, a directory with the files of an image or an image of Apptainer, and the settings.

    `token` is the name of the variable that identifies the attempt's remaining processes.
    """

    program: str
    root: str
    binds: tuple[Bind, ...]
    accelerators: bool
    token: str
    image: ContainerImage

    def enter(self) -> None:
        """Do nothing: Apptainer enters the container itself."""

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """Apptainer's argv, with the command's variables under names that it passes on."""
        _leave_if_true(argv, env, self.root)
        if os.path.isfile(self.root):
            if argv[0] == _BASH:  # looked up inside, and replaced by `sh` if it is missing
                argv = ("sh", "-c", _FIND_SHELL, "sh", *argv[1:])
        else:
            argv = _with_shell(argv, env, self.root)
            if "/" not in argv[0] and not (_is_there(argv[0], env, self.root) or _is_there(argv[0], env)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return (*self.options(directory), self.root, *argv), self._variables(env), "/"

    def options(self, directory: str) -> tuple[str, ...]:
        """`apptainer exec` and its options before the image."""
        binds = [f"{bind.source}:{bind.target}{':ro' if bind.read_only else ''}" for bind in self.binds]
        shown = [word for bind in binds for word in ("--bind", bind)]
        devices = ["--nv"] if self.accelerators else []
        return (self.program, *_EXEC, *devices, *shown, "--pwd", directory)

    def close(self) -> None:
        """Release the image."""
        self.image.release()

    def clear(self, place: str) -> None:
        """Do nothing: no file is written there."""

    def _variables(self, env: Mapping[str, str]) -> dict[str, str]:
        prefix = f"{os.path.basename(self.program).upper()}ENV_"
        given = {f"{prefix}{name}": value for name, value in env.items()}
        own = {name: os.environ[name] for name in _OWN if name in os.environ}
        if self.token in env:
            given[self.token] = env[self.token]
        return {**own, **given}


AnyContainer = Union[Container, Apptainer]


def _discard_inside(users: int, place: str) -> None:
    syscalls.join_namespace(users, syscalls.CLONE_NEWUSER)
    untrusted.discard_tree(place)


def _leave_if_true(argv: Sequence[str], env: Mapping[str, str], root: str = "") -> None:
    """If the command is `true`, exit here: it needs no program, and pulls ahead run nothing else."""
    if list(argv) == [_TRUE] and not _is_there(_TRUE, env, root):
        os._exit(0)


def _with_shell(argv: Sequence[str], env: Mapping[str, str], root: str = "") -> Sequence[str]:
    """The command, with `sh` instead of a `bash` that the root file system lacks."""
    if argv[0] == _BASH and not _is_there(_BASH, env, root) and _is_there(_SHELL, env, root):
        return (_SHELL, *argv[1:])
    return argv


def _is_there(command: str, env: Mapping[str, str], root: str = "") -> bool:
    """Whether a command is on the PATH of an environment, below a root file system."""
    return any(os.path.exists(os.path.join(root + place, command)) for place in os.get_exec_path(dict(env)))
