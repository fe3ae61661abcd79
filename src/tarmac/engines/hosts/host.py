"""`Host`: everything that an engine has done where its cluster can be reached, each with a deadline.

Made by `local_host`, or for another machine; used by engines. What is done is in
`node/host/operations.py`; a `Reach` brings it there: in this process, or over a connection.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.listing import file_entries
from tarmac.engines.hosts.services import Services
from tarmac.model.abilities import FileEntry, KeptImage
from tarmac.model.errors import Unavailable
from tarmac.node.attempt import clearing
from tarmac.node.container.keeping import IN_USE

FILE_S = 60.0
"""How long the work on a few small files may take, on a shared disk under load."""

CLEAR_S = 600.0

_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "SLURM_CONF", "KRB5CCNAME", "XDG_RUNTIME_DIR")
"""Variables such as SLURM_JOB_ID, SBATCH_* and SQUEUE_FORMAT would change what Slurm's commands do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How another machine was reached: in words, and by how much its clock is ahead of ours."""

    text: str
    ahead_s: float


class Reach(Protocol):
    """The way to a host. Raises Unavailable where it cannot be reached, OSError for what failed there.

    `where` it is, in words: "here", or "on" another machine.
    """

    where: str

    def call(self, operation: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Have an operation done, and return its result."""
        ...

    def examine(self) -> Reached | None:
        """Reach it now, and say how that went; None where it is this machine. Raises Unavailable."""
        ...

    def take_code(self, directory: str, digest: str, pieces: Iterator[bytes]) -> None:
        """Put down a snapshot of code, in the form of `node.files.bundles`; also ValueError, BrokenOff."""
        ...

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        """See to it that what these attempts have reported can be read below `Host.seen`."""
        ...


class Streams(Protocol):
    """A way to a host on which programs can be connected to. Raises Unavailable where that cannot be."""

    def stream(
        self, argv: Sequence[str], *, keep: Sequence[str], variables: Mapping[str, str], mark: str
    ) -> int:
        """Start a program and connect to its standard input and output: see `Host.stream`."""
        ...


class Host:
    """`layout` is where things lie there, `seen` where what attempts report is read here. Thread-safe.

    `variables` are added to the environment of the commands; `streams` connects to programs there. Every call
    raises Unavailable where the host cannot be reached, and then may have been done or not; and OSError for
    what failed there.
    """

    def __init__(
        self,
        layout: Layout,
        reach: Reach,
        *,
        seen: Layout,
        variables: Mapping[str, str] | None = None,
        streams: Streams | None = None,
    ) -> None:
        self.layout = layout
        self.seen = seen
        self._reach = reach
        self._streams = streams
        self._variables = dict(variables or {})

    @property
    def where(self) -> str:
        """Where it is, in words."""
        return self._reach.where

    def examine(self) -> Reached | None:
        """Reach it now, and say how that went; None where it is this machine."""
        return self._reach.examine()

    def directory(self, attempt_id: str) -> Path:
        """Where an attempt lies there."""
        directory = self.layout.attempt(attempt_id)
        if directory is None:
            raise ValueError(f"{attempt_id!r} cannot be the id of an attempt")
        return directory

    def run(
        self, argv: Sequence[str], *, variables: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command: exit code, output, error output. Raises Unavailable without an answer."""
        given = {**self._variables, **variables}
        try:
            code, out, err = self._reach.call(
                "run",
                argv=list(argv),
                keep=list(_KEPT),
                variables=given,
                limit_s=timeout_s,
                timeout_s=timeout_s,
            )
        except TimeoutError as late:
            raise Unavailable(f"{argv[0]} {late.strerror}") from None
        except OSError as error:
            raise Unavailable(f"{argv[0]} cannot be run {self.where}: {error.strerror}") from None
        return code, out, err

    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:
        """A connected stream socket to a program, from its line `mark` on; it is a descriptor.

        The program has to end where its input does. Raises Unavailable, with its words if it does not begin.
        """
        if self._streams is None:
            raise Unavailable(f"no program can be connected to {self.where}")
        given = {**self._variables, **variables}
        return self._streams.stream(argv, keep=list(_KEPT), variables=given, mark=mark)

    def prepare(self) -> None:
        """Make the directory of the cluster ready."""
        self._files("prepare", home=str(self.layout.home), area=str(self.layout.staging))

    def make_directory(self, directory: Path, files: Mapping[str, bytes]) -> bool:
        """Make a directory with these files, by relative path: whole or not at all. False if there is one."""
        done = self._files(
            "make_directory", directory=str(directory), files=dict(files), area=str(self.layout.staging)
        )
        return bool(done)

    def use(self, path: Path) -> bool:
        """Whether it is there; if so, it counts as used now: see `clear_copies`."""
        return bool(self._files("use", path=str(path)))

    def write(self, path: Path, content: bytes, *, private: bool = False) -> None:
        """Replace a small file as a whole; `private`: for its user alone to read."""
        self._files("write", path=str(path), content=content, private=private)

    def remove_sealed(self, directory: Path) -> None:
        """Remove the files that secrets of an attempt wait in."""
        self._files("remove_sealed", directory=str(directory))

    def write_once(self, path: Path, content: bytes) -> bytes:
        """Make a small file, unless there is one; what is in it then. Of several who try, one succeeds."""
        found: bytes = self._files("write_once", path=str(path), content=content)
        return found

    def request_leave(self, directory: Path, content: bytes, nodes: Sequence[str]) -> None:
        """Write down a request to leave, and wake the runners of the nodes where they can be woken."""
        self._files("ask", directory=str(directory), content=content, nodes=list(nodes))

    def fence(self, directory: Path, nodes: Sequence[str]) -> None:
        """See to it that these nodes of an attempt, where nobody has claimed them, never start."""
        self._files("fence", directory=str(directory), nodes=list(nodes))

    def read(self, directory: Path, path: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes from `offset` of a file below a directory; None without such a file."""
        found: bytes | None = self._files(
            "read", directory=str(directory), path=path, offset=offset, limit=limit
        )
        return found

    def last(self, directory: Path, path: str, *, limit: int) -> bytes | None:
        """The last `limit` bytes of a file below a directory; None without such a file."""
        found: bytes | None = self._files("last", directory=str(directory), path=path, limit=limit)
        return found

    def files(self, directory: Path, path: str, *, limit: int) -> list[FileEntry] | None:
        """What lies in a directory below a directory; None without such a one."""
        found = self._files("files", directory=str(directory), path=path, limit=limit)
        return None if found is None else file_entries(found)

    def write_piece(self, path: Path, begin: int, content: bytes, *, last: bool) -> None:
        """Write a piece of a large file; the last one brings it to its place."""
        self._files("write_piece", path=str(path), begin=begin, content=content, last=last)

    def list_pieces(self, directory: Path, prefix: str) -> list[tuple[str, int, float]]:
        """All files below a directory in this one: path in this one, bytes, and when it changed."""
        found = self._reach.call("list_pieces", directory=str(directory), prefix=prefix, timeout_s=CLEAR_S)
        return [(str(path), int(size_bytes), float(at)) for path, size_bytes, at in found]

    def remove_trees(self, paths: Sequence[Path]) -> None:
        """Remove directories and files with all that is in them; idempotent."""
        self._reach.call("remove_trees", paths=[str(path) for path in paths], timeout_s=CLEAR_S)

    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        """Put a snapshot of code where runners find it; also raises ValueError and BrokenOff."""
        self._reach.take_code(str(directory), digest, pieces)

    def room(self) -> tuple[int, int | None]:
        """Write to the directory of the cluster: the bytes free there, and the files there may be more."""
        free_bytes, free_files = self._files("room", home=str(self.layout.home))
        return free_bytes, free_files

    def remains(self) -> list[str]:
        """The runs that have left something there."""
        found: list[str] = self._files("remains", runs=str(self.layout.runs))
        return found

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        """Remove what a run worked in, and its logs; the number of attempts that had such."""
        run = str(self.layout.runs / run_id)
        count: int = self._reach.call(
            "clear", run=run, work_days=work_days, log_days=log_days, timeout_s=CLEAR_S
        )
        return count

    def remove(self, run_id: str) -> None:
        """Remove all that a run left there, and what was copied of it from there; idempotent."""
        self._reach.call("remove", home=str(self.layout.home), run_id=run_id, timeout_s=CLEAR_S)
        if self.seen != self.layout:
            clearing.remove(str(self.seen.home), run_id)

    def clear_copies(self, live: Collection[str], *, unused_days: float, version: str) -> int:
        """Remove what was brought there and no attempt of the live runs uses; see `node.attempt.copies`."""
        home, runs = str(self.layout.home), sorted(live)
        count: int = self._reach.call(
            "clear_copies", home=home, live=runs, unused_days=unused_days, version=version, timeout_s=CLEAR_S
        )
        return count

    def images(self, node: str) -> list[KeptImage]:
        """The images there, which are those of `node`."""
        found = self._files("images", directory=str(self.layout.images))
        return [KeptImage(node=node, **record) for record in found]

    def remove_image(self, digest: str) -> bool:
        """Remove an image there; False where a run uses it."""
        directory = str(self.layout.images)
        done = self._reach.call("remove_image", directory=directory, digest=digest, timeout_s=CLEAR_S)
        return bool(done != IN_USE)

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        """Remove images there by age and beyond a limit; how many."""
        bounds = {"limit_bytes": limit_bytes, "unused_days": unused_days}
        directory = str(self.layout.images)
        gone: list[str] = self._reach.call("clear_images", directory=directory, **bounds, timeout_s=CLEAR_S)
        return len(gone)

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        """See to it that what these attempts have reported can be read below `seen`."""
        self._reach.refresh(attempt_ids)

    def services(self) -> Services:
        """The programs that outlive the connection there, and what they need to know of the machine."""
        return Services(self._reach.call)

    def _files(self, operation: str, **arguments: Any) -> Any:
        return self._reach.call(operation, timeout_s=FILE_S, **arguments)
