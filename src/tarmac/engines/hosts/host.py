"""`Host`: all operations of an engine on the machine of its cluster, each with a deadline.

Made by `local_host`, or for another machine; used by engines. `node/host/operations.py` performs the
operations: called in this process, or over a connection.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.streams import open_stream
from tarmac.model.abilities import FileEntry, KeptImage
from tarmac.model.errors import Unavailable
from tarmac.node.attempt import clearing
from tarmac.node.files import codestore
from tarmac.node.host import operations

FILE_S = 60.0
"""Time limit for operations on a few small files, on a shared disk under load."""

CLEAR_S = 600.0

END_MARGIN_S = 30.0
"""Time limit for ending a service, beyond its grace."""

STORE_DIRECTORY = "artifacts"
"""The directory of an artifact store in that of the cluster."""

_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "SLURM_CONF", "KRB5CCNAME", "XDG_RUNTIME_DIR")
"""The variables kept: others, such as SLURM_JOB_ID and SQUEUE_FORMAT, would change Slurm's commands."""

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_PIP = ("PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE")
_KEPT_TO_INSTALL = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", *_PROXIES, *_PIP]
"""Variables of the host that affect downloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How another machine was reached: in words, and how far its clock is ahead of ours."""

    text: str
    ahead_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The state of a service: `pid` of its first process, None if it does not run.

    `since` is by the clock of the host, `lines` are its last output, `left` is the number of processes that
    outlived the first; `started`: it did not run before.
    """

    pid: int | None
    since: float | None
    lines: tuple[str, ...]
    left: int = 0
    started: bool = False


class Host(ABC):
    """`layout` has the paths there, `seen` those here for the reports of attempts. Thread-safe.

    `where` is its place in words: "here", or "on" another machine. `variables` are added to the environment
    of the commands; `area` is the directory of those under construction. A service is identified by its
    `place`: a path, with its log and its record beside it. A host that `runs_commands` runs them at once,
    without a job. Every call raises Unavailable if the host is
    unreachable, with or without effect; and OSError for failures there.
    """

    runs_commands = True

    def __init__(
        self,
        layout: Layout,
        where: str,
        *,
        seen: Layout,
        variables: Mapping[str, str] | None = None,
        area: Path | None = None,
    ) -> None:
        self.layout = layout
        self.where = where
        self.seen = seen
        self._variables = dict(variables or {})
        self.area = str(area or layout.staging)

    @abstractmethod
    def call(self, operation: str, *, timeout_s: float = FILE_S, **arguments: Any) -> Any:
        """Perform an operation of `node/host/operations.py`."""

    @abstractmethod
    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        """Store a snapshot of code, in the form of `node.files.codestore`; also raises ValueError."""

    @abstractmethod
    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:
        """The descriptor of a stream socket to a program, behind its line `mark`.

        The program must end at the end of its input. Raises Unavailable, with the program's output if it does
        not begin.
        """

    def examine(self) -> Reached | None:
        """Connect now, and return how; None for a host that is always connected."""
        return None

    @abstractmethod
    def refresh(self, attempt_ids: Sequence[str]) -> None:
        """Make the reports of these attempts readable below `seen`."""

    def directory(self, attempt_id: str) -> Path:
        """The directory of an attempt there."""
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
            code, out, err = self.call(
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

    def prepare(self) -> None:
        """Create the directory of the cluster."""
        self.call("prepare", home=str(self.layout.home), area=self.area)

    def make_directory(self, directory: Path, files: Mapping[str, bytes]) -> bool:
        """Create a directory with these files, by relative path, atomically. False if it exists."""
        done = self.call("make_directory", directory=str(directory), files=dict(files), area=self.area)
        return bool(done)

    def use(self, path: Path) -> bool:
        """Whether the path exists; if so, mark it as used now: see `clear_copies`."""
        return bool(self.call("use", path=str(path)))

    def write(self, path: Path | str, content: bytes, *, private: bool = False) -> None:
        """Replace a small file atomically; `private`: only its user can read it."""
        self.call("write", path=str(path), content=content, private=private)

    def remove_sealed(self, directory: Path) -> None:
        """Remove the files with an attempt's pending secrets."""
        self.call("remove_sealed", directory=str(directory))

    def write_once(self, path: Path, content: bytes) -> bytes:
        """Create a small file, unless it exists; return its content. Of several callers one succeeds."""
        return self.call("write_once", path=str(path), content=content)

    def request_leave(self, directory: Path, content: bytes, nodes: Sequence[str]) -> None:
        """Write a request to leave, and wake the runners of the nodes if possible."""
        self.call("ask", directory=str(directory), content=content, nodes=list(nodes))

    def fence(self, directory: Path, nodes: Sequence[str]) -> None:
        """Ensure that these nodes of an attempt never start if they are unclaimed."""
        self.call("fence", directory=str(directory), nodes=list(nodes))

    def read(self, directory: Path, path: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes from `offset` of a file below a directory; None without such a file."""
        return self.call("read", directory=str(directory), path=path, offset=max(0, offset), limit=limit)

    def last(self, directory: Path, path: str, *, limit: int) -> bytes | None:
        """The last `limit` bytes of a file below a directory; None without such a file."""
        return self.call("read", directory=str(directory), path=path, offset=-limit, limit=limit)

    def files(self, directory: Path, path: str, *, limit: int) -> list[FileEntry] | None:
        """The entries of a directory below a directory; None if there is none."""
        found = self.call("files", directory=str(directory), path=path, limit=limit)
        if found is None:
            return None
        return [
            FileEntry(name=str(name), kind=str(kind), size_bytes=int(size_bytes), modified_at=float(at))
            for name, kind, size_bytes, at in found
        ]

    def remove_trees(self, paths: Sequence[Path | str]) -> None:
        """Remove directories and files recursively; idempotent."""
        self.call("remove_trees", paths=[str(path) for path in paths], timeout_s=CLEAR_S)

    def room(self, directory: str = "") -> tuple[int, int | None]:
        """Write to a directory, else to that of the cluster; return its free bytes and free files."""
        free_bytes, free_files = self.call("room", home=directory or str(self.layout.home))
        return free_bytes, free_files

    def remains(self) -> list[str]:
        """The runs with remaining files there."""
        return self.call("remains", runs=str(self.layout.runs))

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        """Remove a run's working directories and logs; return the number of attempts that had some."""
        run = str(self.layout.runs / run_id)
        return self.call("clear", run=run, work_days=work_days, log_days=log_days, timeout_s=CLEAR_S)

    def remove(self, run_id: str) -> None:
        """Remove all files of a run there, and their copies here; idempotent."""
        self.call("remove", home=str(self.layout.home), run_id=run_id, timeout_s=CLEAR_S)
        if self.seen is not self.layout:
            clearing.remove(str(self.seen.home), run_id)

    def clear_copies(self, live: Collection[str], *, unused_days: float, version: str) -> int:
        """Remove copies that no attempt of the live runs uses; see `node.attempt.copies`."""
        home, runs = str(self.layout.home), sorted(live)
        return self.call(
            "clear_copies", home=home, live=runs, unused_days=unused_days, version=version, timeout_s=CLEAR_S
        )

    def images(self, node: str) -> list[KeptImage]:
        """The images there, as those of `node`."""
        found = self.call("images", directory=str(self.layout.images))
        return [KeptImage(node=node, **record) for record in found]

    def remove_image(self, digest: str) -> bool:
        """Remove an image there; False if a run uses it."""
        directory = str(self.layout.images)
        return bool(self.call("remove_image", directory=directory, digest=digest, timeout_s=CLEAR_S))

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        """Remove images there by age and beyond a limit; return their number."""
        bounds = {"limit_bytes": limit_bytes, "unused_days": unused_days}
        directory = str(self.layout.images)
        return len(self.call("clear_images", directory=directory, **bounds, timeout_s=CLEAR_S))

    # --- programs that outlive the connection, and facts about the machine ------------------------

    def facts(self, programs: Sequence[str]) -> tuple[Mapping[str, str | None], str | None]:
        """The paths of programs there (None: not found), and the address of the machine if known."""
        found = self.call("machine_facts", programs=list(programs))
        return found["programs"], found["address"]

    def install(self, argv: Sequence[str], *, timeout_s: float) -> tuple[int, bytes]:
        """Run a command that downloads: exit code, and output. Raises TimeoutError."""
        limits = {"limit_s": timeout_s, "timeout_s": timeout_s}
        code, out, err = self.call("run", argv=list(argv), keep=_KEPT_TO_INSTALL, variables={}, **limits)
        return code, out + err

    def port_problem(self, address: str, port: int) -> str | None:
        """Why no program could listen at this port, None if one could; port 0 tries the address alone."""
        return self.call("port_problem", address=address, port=port)

    def connect_problem(self, address: str, port: int) -> str | None:
        """Why the host cannot connect to an address; None if it can."""
        return self.call("connect_problem", address=address, port=port)

    def free_ports(self, address: str, count: int) -> list[int]:
        """Free ports there."""
        return [int(port) for port in self.call("free_ports", address=address, count=count)]

    def start_service(
        self, place: str, argv: Sequence[str], *, variables: Mapping[str, str], directories: Sequence[str]
    ) -> ServiceState:
        """Start a service, unless it runs; its directories are created first, for its user alone."""
        found = self.call(
            "start_service",
            place=place,
            argv=list(argv),
            variables=dict(variables),
            directories=list(directories),
        )
        return _state(found)

    def service(self, place: str) -> ServiceState:
        """The current state of a service."""
        return _state(self.call("service", place=place))

    def end_service(self, place: str, *, grace_s: float) -> bool:
        """End a service: SIGTERM, after the grace SIGKILL to all its processes; return whether any ran."""
        limit_s = grace_s + END_MARGIN_S
        return bool(self.call("end_service", timeout_s=limit_s, place=place, grace_s=grace_s))

    def end_agents(self, directory: str) -> None:
        """End the agents that serve a directory there; runs continue."""
        self.call("end_agents", home=directory)


def _state(found: Mapping[str, Any]) -> ServiceState:
    text = bytes(found["lines"]).decode(errors="replace")
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    return ServiceState(**{**found, "lines": lines})


class HostStoreFiles:
    """The files below `directory` on a host. Every call raises Unavailable if it fails."""

    def __init__(self, host: Host, directory: Path) -> None:
        self._host = host
        self._directory = directory

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes of a file from `offset`; None without such a file."""
        with self._failures():
            return self._host.read(self._directory, name, offset=offset, limit=limit)

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        """Write a piece of a file, in order; the last one makes it visible and replaces any other."""
        with self._failures():
            path = str(self._directory / name)
            self._host.call("write_piece", path=path, begin=begin, content=content, last=last)

    def listing(self, prefix: str) -> list[tuple[str, int, float]]:
        """Every file below a directory: name, bytes, time of change."""
        with self._failures():
            directory = str(self._directory)
            found = self._host.call("list_pieces", directory=directory, prefix=prefix, timeout_s=CLEAR_S)
            return [(str(path), int(size_bytes), float(at)) for path, size_bytes, at in found]

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and directories recursively."""
        with self._failures():
            self._host.remove_trees([self._directory / name for name in names])

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(f"{self._directory} {self._host.where}: {error.strerror}") from None


def local_host(directory: Path, *, variables: Mapping[str, str] | None = None) -> Host:
    """This machine, as the host of a cluster that keeps its runs in `directory`."""
    layout = Layout(directory)
    return _Here(layout, "here", seen=layout, variables=variables)


class _Here(Host):
    """This machine. Operations on files have no deadline here: they cannot be interrupted."""

    def call(self, operation: str, *, timeout_s: float = FILE_S, **arguments: Any) -> Any:  # noqa: ARG002 - see above
        return operations.operation(operation)(**arguments)

    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        codestore.receive_pieces(pieces, str(directory), digest)

    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return open_stream(argv, env={**env, **self._variables, **variables}, mark=mark)

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        """Do nothing: reports are read in place."""
