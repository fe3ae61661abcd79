"""A container whose processes Apptainer starts, for nodes where users may not make namespaces.

Called by `making`. Each command is one `apptainer exec` of the image's files in one directory (see
`flat`), or of an image of Apptainer's own, in which nothing can be looked up beforehand.
Writes outside the attempt's directories stay in memory and are private to the command: steps and workers
share only those directories. The command's processes end with it, in a process namespace of their own.
"""

from __future__ import annotations

import errno
import os
from typing import Mapping, NamedTuple, Optional, Sequence

from tarmac.node.container.entry import BASH, is_there, leave_if_true, with_shell
from tarmac.node.container.root import CannotMake
from tarmac.node.kernel.mountplan import Bind

_FIND_SHELL = 'if command -v bash >/dev/null; then exec bash "$@"; fi; exec sh "$@"'
_OWN = ("PATH", "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "TMPDIR")
"""The runner's variables that Apptainer needs; none of them is visible in the container."""


class Apptainer(NamedTuple):
    """The root, a directory with the files of an image or an image of Apptainer, and the settings.

    `token` is the name of the variable that identifies the attempt's remaining processes.
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
        """Do nothing: Apptainer enters the container itself."""

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """Apptainer's argv, with the command's variables under names that it passes on."""
        leave_if_true(argv, env, self.root)
        if os.path.isfile(self.root):
            argv = _with_any_shell(argv)
        else:
            argv = with_shell(argv, env, self.root)
            if "/" not in argv[0] and not (is_there(argv[0], env, self.root) or is_there(argv[0], env)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return (*self.options(directory), self.root, *argv), self._variables(env), "/"

    def options(self, directory: str) -> tuple[str, ...]:
        """`apptainer exec` and its options before the image."""
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
        """Release the image."""
        if self.use is not None:
            os.close(self.use)

    def clear(self, place: str) -> None:
        """Do nothing: no file is written there."""

    def _variables(self, env: Mapping[str, str]) -> dict[str, str]:
        prefix = f"{os.path.basename(self.program).upper()}ENV_"
        given = {f"{prefix}{name}": value for name, value in env.items()}
        own = {name: os.environ[name] for name in _OWN if name in os.environ}
        return {**own, **given, **({self.token: env[self.token]} if self.token in env else {})}


def _with_any_shell(argv: Sequence[str]) -> Sequence[str]:
    """The command; `bash` is looked up inside, and replaced by `sh` if it is missing."""
    return ("sh", "-c", _FIND_SHELL, "sh", *argv[1:]) if argv[0] == BASH else argv


def check_binds(binds: Sequence[Bind]) -> None:
    """Raise CannotMake for a path that no option of Apptainer can express."""
    for path in (path for bind in binds for path in (bind.source, bind.target)):
        if ":" in path or "," in path:
            raise CannotMake(f"it cannot show {path}, for the ':' or ',' in it")
