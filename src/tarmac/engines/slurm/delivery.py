"""Bringing an attempt to the site and submitting its job exactly once. Used by `SlurmEngine`.

First everything that its nodes need lies in the shared directory, then the job is submitted; whoever comes
back after a crash, or after an answer that was lost, looks for the job before another is submitted. Should
two jobs come to be nevertheless, the first that begins makes a file, and the other leaves.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from threading import Lock

from tarmac.engines.attempts import staging
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.slurm import observing
from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.queue import Queue
from tarmac.engines.slurm.script import SCRIPT_FILE, SUBMITTED_FILE, SlurmRequest
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.ports import StreamsCode
from tarmac.node.files import bundles, untrusted
from tarmac.node.starting import NODE_DIRECTORY, Installation

REMEMBERED = 4096
LARGEST_MODULE_BYTES = 1 << 20


class Delivery:
    """Submits attempts. Thread-safe: one at a time."""

    def __init__(
        self,
        settings: SlurmSettings,
        layout: Layout,
        commands: Commands,
        queue: Queue,
        code: StreamsCode | None,
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._commands = commands
        self._queue = queue
        self._code = code
        self._lock = Lock()
        self._prepared = False
        self._submitted_at: dict[str, float] = {}

    @cached_property
    def installation(self) -> Installation:
        """Where the node package lies at the site: each version of it in a directory of its own."""
        package = self._layout.home / "node" / _digest(NODE_DIRECTORY) / "tarmac" / "node"
        return Installation(self._settings.python, str(package))

    def submitted_after(self, attempt_id: str, moment: float) -> bool:
        """Whether it was submitted here after that moment of the monotonic clock."""
        return self._submitted_at.get(attempt_id, float("-inf")) > moment

    def deliver(self, request: SlurmRequest) -> None:
        """Submit an attempt that has no job yet. Raises Unavailable or InvalidInput, as `Engine` says."""
        if request.attempt.secrets:
            raise InvalidInput(
                "an attempt on this cluster cannot be given secrets yet",
                hint="runs with secrets run on the local cluster",
            )
        with self._lock:
            try:
                self._deliver(request)
            except OSError as error:
                raise Unavailable(f"{error.filename or self._layout.home}: {error.strerror}") from None

    def _deliver(self, request: SlurmRequest) -> None:
        directory = request.attempt.directory
        self.prepare()
        self._bring_code(request)
        fresh = staging.stage(request.attempt, self._layout)
        if not fresh:  # a call before this one came so far: did it submit a job?
            if observing.submitted(directory) is not None or observing.begun(directory) is not None:
                return
            found = self._queue.named(request.attempt_id)
            if found is not None:
                self._note(request, found)
                return
        script = directory / SCRIPT_FILE
        untrusted.replace(str(script), request.script.encode())
        job_id = self._commands.submit(str(script)) or self._queue.named(request.attempt_id)
        if job_id is None:
            raise Unavailable("sbatch gave no id of a job, and there is none of that name")
        self._note(request, job_id)

    def prepare(self) -> None:
        """Make the directory ready, once. Raises Unavailable."""
        if self._prepared:
            return
        try:
            self._layout.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            staging.prepare(self._layout)
            package = Path(self.installation.package)
            if not package.exists():
                _put(NODE_DIRECTORY, package, self._layout.staging)
        except OSError as error:
            raise Unavailable(f"{self._layout.home} cannot be used: {error.strerror}") from None
        self._prepared = True

    def _bring_code(self, request: SlurmRequest) -> None:
        code = request.attempt.document.code
        if code is None or Path(code).exists():
            return
        if self._code is None:
            raise InvalidInput("this cluster was given no code to take from")
        path = Path(code)
        stream = io.BufferedReader(_Pieces(self._code.stream(path.name)))
        try:
            bundles.receive(stream, str(path.parent), path.name)
        except (bundles.BrokenOff, ValueError) as error:
            raise Unavailable(f"the code was not taken to {path.parent}: {error}") from None

    def _note(self, request: SlurmRequest, job_id: str) -> None:
        if len(self._submitted_at) >= REMEMBERED:
            self._submitted_at.clear()
        self._submitted_at[request.attempt_id] = time.monotonic()
        untrusted.replace(str(request.attempt.directory / SUBMITTED_FILE), job_id.encode())


class _Pieces(io.RawIOBase):
    """An iterator of pieces as a stream to read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _files(package: Path) -> list[Path]:
    return sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)


def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for path in _files(package):
        digest.update(
            str(path.relative_to(package)).encode()
            + b"\0"
            + untrusted.read_bytes(str(path), LARGEST_MODULE_BYTES)
            + b"\0"
        )
    return digest.hexdigest()[:16]


def _put(package: Path, target: Path, staging_directory: Path) -> None:
    """Copy the package to its place: there as a whole, or not at all."""
    partial = staging_directory / f"node-{os.urandom(6).hex()}"
    shutil.copytree(package, partial / "tarmac" / "node", ignore=shutil.ignore_patterns("__pycache__"))
    version = target.parent.parent
    version.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.rename(version)
    except OSError:
        if not target.exists():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
