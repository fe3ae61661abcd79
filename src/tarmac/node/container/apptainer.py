"""A container whose processes Apptainer starts, for nodes where users may not make namespaces.

Called by `making`. Each command is one `apptainer exec` of the image's files in one directory (see
`flat_root`; made once per image from hard links to its layers' files, so it takes no space), or of an image
of Apptainer's own, in which nothing can be looked up beforehand.
Writes outside the attempt's directories stay in memory and are private to the command: steps and workers
share only those directories. The command's processes end with it, in a process namespace of their own.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from typing import Mapping, NamedTuple, Sequence

from tarmac.node.container.entry import BASH, ContainerImage, is_there, leave_if_true, with_shell
from tarmac.node.container.images import OPAQUE_MARK, Image, Images, is_directory, make_once
from tarmac.node.container.root import CannotMake
from tarmac.node.files import untrusted
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
    image: ContainerImage

    def enter(self) -> None:
        """Do nothing: Apptainer enters the container itself."""

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], directory: str
    ) -> tuple[Sequence[str], Mapping[str, str], str]:
        """Apptainer's argv, with the command's variables under names that it passes on."""
        leave_if_true(argv, env, self.root)
        if os.path.isfile(self.root):
            if argv[0] == BASH:  # looked up inside, and replaced by `sh` if it is missing
                argv = ("sh", "-c", _FIND_SHELL, "sh", *argv[1:])
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
        self.image.release()

    def clear(self, place: str) -> None:
        """Do nothing: no file is written there."""

    def _variables(self, env: Mapping[str, str]) -> dict[str, str]:
        prefix = f"{os.path.basename(self.program).upper()}ENV_"
        given = {f"{prefix}{name}": value for name, value in env.items()}
        own = {name: os.environ[name] for name in _OWN if name in os.environ}
        return {**own, **given, **({self.token: env[self.token]} if self.token in env else {})}


def check_binds(binds: Sequence[Bind]) -> None:
    """Raise CannotMake for a path that no option of Apptainer can express."""
    for path in (path for bind in binds for path in (bind.source, bind.target)):
        if ":" in path or "," in path:
            raise CannotMake(f"it cannot show {path}, for the ':' or ',' in it")


def flat_root(images: Images, image: Image) -> str:
    """The directory with all files of the image. Raises OSError."""
    if not image.digest:
        return image.layers[0]
    if len(image.layers) == 1:
        return os.path.join(images.layers, image.layers[0])
    place = images.flat(image.digest)
    if os.path.isdir(place):
        return place
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)

    def fill(draft: str) -> None:
        for layer in image.layers:
            _lay(os.path.join(images.layers, layer), draft)

    make_once(place, fill)
    return place


def _lay(layer: str, target: str) -> None:
    """Copy a directory of a layer over the existing entries; links are copied, never followed."""
    with os.scandir(layer) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        place = os.path.join(target, entry.name)
        kind = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(kind.st_mode):
            _clear(place)
            if stat.S_ISLNK(kind.st_mode):
                os.symlink(os.readlink(entry.path), place)
            elif stat.S_ISREG(kind.st_mode):
                os.link(entry.path, place, follow_symlinks=False)
            continue  # an entry that is neither removes the one below
        if _is_opaque(entry.path) or not is_directory(place):
            _clear(place)
        with suppress(FileExistsError):
            os.mkdir(place)
        _lay(entry.path, place)
        shutil.copystat(entry.path, place, follow_symlinks=False)
        if os.geteuid() == 0:
            os.chown(place, kind.st_uid, kind.st_gid)


def _clear(place: str) -> None:
    if is_directory(place):
        untrusted.remove_tree(place)
    else:
        with suppress(FileNotFoundError):
            os.unlink(place)


def _is_opaque(path: str) -> bool:
    with suppress(OSError):
        return os.getxattr(path, OPAQUE_MARK) == b"y"
    return False
