"""`SiteHost`: the host of a cluster of which only an interface for files and jobs can be reached.

Made by the kinds of engines for sites; used by `SlurmEngine` like any other host. The operations on the files
of a site have the names, arguments and results of `node/host/operations.py`, which runs where a program can.
No program of tarmac runs at a site outside a job, so operations on processes are missing.
"""

import errno
import json
import posixpath
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.host import FILE_S, Host
from tarmac.engines.hosts.report_copies import FILES, ReportCopies
from tarmac.engines.sites.changes import COMPLETE, SiteChanges, read_all
from tarmac.engines.sites.packing import PACKED, Packed, Parts, archive, compressed
from tarmac.engines.sites.wire import RemoteEntry, SiteFiles
from tarmac.engines.slurm.files import COPIED
from tarmac.model.errors import Unavailable
from tarmac.node.attempt import clearing, protocol
from tarmac.node.attempt.protocol import AttemptPaths
from tarmac.node.files.codestore import is_digest

NO_COMMANDS = "the interface of this site runs no commands outside jobs"
DAY_S = 86_400.0
FENCED = json.dumps({"fenced": True}).encode()
_SCRATCH = (protocol.WORK, protocol.VENV, protocol.FILES)


class SiteHost(Host):
    """The host behind `files`, where runs are kept in `directory`; reports are copied to `copies` here.

    `where` is the site in words: "at" its name.
    """

    runs_commands = False

    def __init__(self, directory: Path, files: SiteFiles, where: str, *, copies: Path) -> None:
        super().__init__(Layout(directory), where, seen=Layout(copies))
        self._operations = SiteOperations(files, str(directory), str(copies))
        self._changes = SiteChanges(files)
        self._report_copies = ReportCopies(self.layout, self.seen, files=(*FILES, *COPIED))

    def call(self, operation: str, *, timeout_s: float = FILE_S, **arguments: Any) -> Any:  # noqa: ARG002
        """Each call of the interface has a deadline of its own."""
        return self._operations.named(operation)(**arguments)

    def request_leave(self, directory: Path, content: bytes, nodes: Sequence[str]) -> None:
        super().request_leave(directory, content, nodes)
        self._changes.note_write(f"{directory}/{protocol.ASK_FILE}")

    def take_code(self, directory: Path, digest: str, pieces: Iterator[bytes]) -> None:
        self._operations.packed.put(posixpath.join(directory, digest), compressed(pieces))

    def stream(self, argv: Sequence[str], *, variables: Mapping[str, str], mark: str) -> int:  # noqa: ARG002
        raise Unavailable(NO_COMMANDS)

    def refresh(self, attempt_ids: Sequence[str]) -> None:
        if attempt_ids:
            self._report_copies.refresh(attempt_ids, self._changes.since, self)


class SiteOperations:
    """Operations on `files` below `home`. `seen` is the directory here with copies of attempts' documents."""

    def __init__(self, files: SiteFiles, home: str, seen: str) -> None:
        self._files = files
        self._home = home
        self._seen = seen
        self.packed = Packed(files, home)
        self._making = Lock()
        self._parts: dict[str, Parts] = {}
        self._made: set[str] = set()
        self._used_at: dict[str, float] = {}

    def named(self, operation: str) -> Callable[..., Any]:
        """The operation of this name. Raises Unavailable if the site cannot perform it."""
        found = None if operation.startswith("_") else getattr(self, operation, None)
        if found is None or operation in ("named", "packed"):
            raise Unavailable(f"this site can be reached for files and jobs alone, not for {operation!r}")
        performed: Callable[..., Any] = found
        return performed

    def prepare(self, *, home: str, area: str) -> None:  # noqa: ARG002 - directories are made in their place
        self._files.make_directory(home, private=True)
        for name in (PACKED, "runs", "code", "node"):
            self._make(f"{home}/{name}")

    def make_directory(self, *, directory: str, files: Mapping[str, bytes], area: str) -> bool:  # noqa: ARG002
        """Make the directory of an attempt or a version; a file that is written last completes it."""
        if posixpath.dirname(directory) == f"{self._home}/node":
            self.packed.put(directory, compressed([archive(files)]))
            return True
        with self._making:
            entries = self._files.listing(directory) or ()
            if any(entry.path == COMPLETE for entry in entries):
                return False
            self._files.make_directory(directory)
            for name, content in {**files, COMPLETE: b""}.items():
                self._files.write(f"{directory}/{name}", content)
        return True

    def use(self, *, path: str) -> bool:
        self._used_at[path] = time.time()
        name = posixpath.basename(path)
        there = self._files.listing(posixpath.dirname(path)) or ()
        return any(entry.path == name for entry in there) or path in self.packed.complete()

    def write(self, *, path: str, content: bytes, private: bool = False) -> None:
        self._files.write(path, content, private=private)

    def write_once(self, *, path: str, content: bytes) -> bytes:
        return self._files.create(path, content)

    def ask(self, *, directory: str, content: bytes, nodes: Sequence[str]) -> None:  # noqa: ARG002 - they poll
        self._files.write(f"{directory}/{protocol.ASK_FILE}", content)

    def fence(self, *, directory: str, nodes: Sequence[str]) -> None:
        for node in nodes:
            paths = AttemptPaths(directory).node(node)
            self._files.make_directory(paths.directory)
            self._files.create(paths.claim, FENCED)

    def remove_sealed(self, *, directory: str) -> None:
        for entry in self._files.listing(directory) or ():
            if entry.path.startswith(protocol.SEALED_PREFIX):
                self._files.remove(f"{directory}/{entry.path}")

    def read(self, *, directory: str, path: str, offset: int, limit: int) -> bytes | None:
        if not _is_inside(path):
            return None
        return self._files.read(f"{directory}/{path}", offset=offset, limit=limit)

    def files(self, *, directory: str, path: str, limit: int) -> list[RemoteEntry] | None:
        if path and not _is_inside(path):
            return None
        try:
            found = self._files.listing(f"{directory}/{path}".rstrip("/"))
        except NotADirectoryError:
            return None
        return None if found is None else sorted(found)[:limit]

    def remove_trees(self, *, paths: Sequence[str]) -> None:
        for path in paths:
            self._files.remove(path)

    # --- what is kept after the end ----------------------------------------------------------------

    def remains(self, *, runs: str) -> list[str]:
        return [entry.path for entry in self._files.listing(runs) or ()]

    def remove(self, *, home: str, run_id: str) -> None:
        self._files.remove(f"{home}/runs/{run_id}")

    def clear(self, *, run: str, work_days: float | None, log_days: float | None) -> int:
        """See `clearing.clear`."""
        cleared = 0
        for attempt in self._directories(f"{run}/attempts"):
            scratch = [
                f"{node}/{entry.path}"
                for node in (
                    self._directories(f"{attempt}/{protocol.NODES}") if work_days is not None else ()
                )
                for entry in self._files.listing(node) or ()
                if entry.path in _SCRATCH
            ]
            logs = [f"{attempt}/{protocol.LOGS}"] if log_days is not None and self._has_logs(attempt) else []
            self.remove_trees(paths=[*scratch, *logs])
            removed = {"work": work_days} if scratch else {}
            removed |= {"logs": log_days} if logs else {}
            if removed:
                self._note(f"{attempt}/{protocol.CLEARED_FILE}", removed)
                cleared += 1
        return cleared

    def clear_copies(self, *, home: str, live: Collection[str], unused_days: float, version: str) -> int:
        """See `clearing.clear_copies`: a copy's age begins when it came, or was last used by this server."""
        before = time.time() - unused_days * DAY_S
        used = {version, *clearing.used_copies(self._seen, live)}
        old = []
        for directory in (f"{home}/code", f"{home}/code/packs", f"{home}/node", f"{home}/{PACKED}"):
            for entry in self._files.listing(directory) or ():
                path, name = f"{directory}/{entry.path}", entry.path.removesuffix(".pack")
                last_at = max(entry.modified_at, self._used_at.get(path, 0.0))
                if last_at < before and name not in used and (entry.kind == "directory" or is_digest(name)):
                    old.append(path)
        old = [path for path in old if path != f"{home}/code/packs"]
        self.remove_trees(paths=old)
        return len(old)

    def images(self, *, directory: str) -> list[dict[str, Any]]:  # noqa: ARG002 - its index is for nodes alone
        return []

    def clear_images(self, *, directory: str, **bounds: Any) -> list[str]:  # noqa: ARG002
        return []

    # --- the artifact store ------------------------------------------------------------------------

    def write_piece(self, *, path: str, begin: int, content: bytes, last: bool) -> None:
        """Write a piece of a file: a whole one at once, one of several parts for the next job to join."""
        if last and not begin and len(content) <= 512 * 1024:
            self._make(posixpath.dirname(path))
            self._files.write(path, content)
            return
        if not begin:
            self._parts[path] = self.packed.begin(path)
        parts = self._parts.get(path)
        if parts is None:
            raise OSError(errno.ESPIPE, "its first piece is missing", path)
        parts.add(content)
        if last:
            parts.complete()
            del self._parts[path]

    def list_pieces(self, *, directory: str, prefix: str) -> list[list[Any]]:
        """Every file below a prefix, with those that the next job will join."""
        place = posixpath.normpath(f"{directory}/{prefix}")
        there = self._files.listing(place, recursive=True) or ()
        found = {f"{place}/{entry.path}": entry for entry in there if entry.kind == "file"}
        coming = self.packed.complete().items()
        found |= {path: entry for path, entry in coming if path.startswith(f"{place}/")}
        return [
            [posixpath.relpath(path, directory), entry.size_bytes, entry.modified_at]
            for path, entry in found.items()
        ]

    # --- inside ------------------------------------------------------------------------------------

    def _make(self, directory: str) -> None:
        """Make a directory that stays."""
        if directory not in self._made:
            self._files.make_directory(directory)
            self._made.add(directory)

    def _directories(self, directory: str) -> Iterator[str]:
        for entry in self._files.listing(directory) or ():
            if entry.kind == "directory":
                yield f"{directory}/{entry.path}"

    def _has_logs(self, attempt: str) -> bool:
        return any(entry.path == protocol.LOGS for entry in self._files.listing(attempt) or ())

    def _note(self, path: str, removed: Mapping[str, float | None]) -> None:
        known: dict[str, Any] = {}
        with suppress(ValueError):
            known = dict(json.loads(read_all(self._files, path, offset=0, limit=4096) or b"{}"))
        self._files.write(path, json.dumps({**known, **removed}).encode())


def _is_inside(path: str) -> bool:
    """Whether a path is one below a directory."""
    parts = path.split("/")
    return "\0" not in path and "\n" not in path and not {"", ".", ".."}.intersection(parts)
