"""A container whose processes Apptainer starts, for nodes where users may make no namespaces themselves.

Called by `making`. Each command is one `apptainer exec` of the image's files in one directory (see `flat`).
What it writes beside the directories of the attempt is in memory and its own: steps and workers share those
directories alone. Its processes end with it, in a process namespace of their own.
"""

from __future__ import annotations

import errno
import os
from typing import Mapping, NamedTuple, Optional, Sequence

from tarmac.node.container.entry import is_there, leave_if_true, with_shell
from tarmac.node.container.root import CannotMake
from tarmac.node.kernel.mountplan import Bind

_OWN = ("PATH", "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "TMPDIR")
"""Of the runner's variables those that the program needs; none of them is seen in the container."""


class Apptainer(NamedTuple):
    """A directory with the files of an image, and how the program is to show it.

    `token` is the name of the variable by which what is left of an attempt is found.
    """

    program: str
    root: str
    binds: tuple[Bind, ...]
    accelerators: bool
    token: str
    env: Mapping[str, str]
    numbers: Mapping[int, int]
    key: str
    digest: str = ""
    use: Optional[int] = None

    def enter(self) -> None:
        """The program goes there by itself."""

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """The program, with the variables of the command under names that it passes on."""
        leave_if_true(argv, env, self.root)
        argv = with_shell(argv, env, self.root)
        if "/" not in argv[0] and not (is_there(argv[0], env, self.root) or is_there(argv[0], env)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return (*self.options(directory), self.root, *argv), self._variables(env), "/"

    def options(self, directory: str) -> tuple[str, ...]:
        """`apptainer exec` and what stands before the image."""
        binds = [f"{bind.source}:{bind.target}{':ro' if bind.read_only else ''}" for bind in self.binds]
        return (
            *(
                self.program,
                "--silent",
                "exec",
                "--containall",
                "--no-home",
                "--no-privs",
                "--writable-tmpfs",
            ),
            *(("--nv",) if self.accelerators else ()),
            *(word for bind in binds for word in ("--bind", bind)),
            *("--pwd", directory),
        )

    def close(self) -> None:
        """Let go of the image."""
        if self.use is not None:
            os.close(self.use)

    def clear(self, place: str) -> None:
        """Nothing is written there."""

    def _variables(self, env: Mapping[str, str]) -> dict[str, str]:
        prefix = f"{os.path.basename(self.program).upper()}ENV_"
        given = {f"{prefix}{name}": value for name, value in env.items()}
        own = {name: os.environ[name] for name in _OWN if name in os.environ}
        return {**own, **given, **({self.token: env[self.token]} if self.token in env else {})}


def check_binds(binds: Sequence[Bind]) -> None:
    """Raise CannotMake for a path that has no place in an option of the program."""
    for path in (path for bind in binds for path in (bind.source, bind.target)):
        if ":" in path or "," in path:
            raise CannotMake(f"it cannot show {path}, for the ':' or ',' in it")
