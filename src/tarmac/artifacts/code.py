"""`DirectoryCodeStore`: snapshots of code directories, named by the digest of what they hold.

Wired in `server/wiring.py`; `control` calls `snapshot` when it stages a run, and the runner copies
`ROOT/DIGEST/` into its working directory. A snapshot is written beside, flushed to the disk and renamed:
it is there whole or not at all, and two that are made at once come to the same.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tarmac.artifacts.content import HashMemory, Unreadable, Vanished, hash_file, tree_digest
from tarmac.artifacts.tree import LEAVE_OUT_HINT, Entry, Kind, scan, unreadable
from tarmac.model.errors import InvalidInput, Problem, Unavailable
from tarmac.model.ports import StagedCode
from tarmac.model.spec import LocalDirectory, Repository

DEFAULT_LIMIT_BYTES = 1 << 30
PARTIAL_PREFIX = ".partial-"
SCANS = 3
FLUSHING_THREADS = 8
LARGEST_SHOWN = 5


class DirectoryCodeStore:
    """Snapshots under one root directory. Implements the port `CodeStore`; thread-safe.

    A directory of more than `limit_bytes` is refused. `leave_out` are directories that never belong to a
    snapshot even if they lie inside one, such as the tarmac home; the root itself never does.
    """

    def __init__(
        self, root: Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES, leave_out: Sequence[Path] = ()
    ) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._leave_out = (root, *leave_out)
        self._memory = HashMemory()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()

    def stage(self, code: LocalDirectory | Repository) -> StagedCode:
        if isinstance(code, Repository):
            raise InvalidInput(f"code from a git repository cannot be fetched here: {code.url}")
        return StagedCode(digest=code.digest or self.snapshot(code.path))

    def snapshot(self, directory: str) -> str:
        """Copy a directory, less what its ignore file leaves out, and return the digest of the copy."""
        source = _readable_directory(directory)
        for _ in range(SCANS):
            try:
                return self._snapshot(source)
            except Vanished:
                continue
            except Unreadable as failure:
                raise InvalidInput([unreadable(failure.path, failure.error)]) from None
        raise Unavailable(
            f"{directory} keeps changing while it is being copied", hint="submit again when it rests"
        )

    def _snapshot(self, source: Path) -> str:
        entries = scan(source, leave_out=self._leave_out)
        self._check_size(source, entries)
        digest = tree_digest(entries, self._memory.hashes(source, entries))
        if (self._root / digest).is_dir():
            return digest
        try:
            return self._copy(source, entries)
        except OSError as error:
            raise Unavailable(
                f"cannot keep a copy of {source} in {self._root}: {error.strerror}",
                hint="free some space there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None,
            ) from None

    def _check_size(self, source: Path, entries: Sequence[Entry]) -> None:
        total_bytes = sum(entry.size_bytes for entry in entries)
        if total_bytes <= self._limit_bytes:
            return
        files = sorted(entries, key=lambda entry: (-entry.size_bytes, entry.path))[:LARGEST_SHOWN]
        largest = ", ".join(f"{entry.path} ({_mebibytes(entry.size_bytes)})" for entry in files)
        message = (
            f"holds {_mebibytes(total_bytes)} of code, more than the {_mebibytes(self._limit_bytes)} allowed"
            f"; the largest files: {largest}"
        )
        raise InvalidInput([Problem(message=message, file=str(source), hint=LEAVE_OUT_HINT)])

    def _copy(self, source: Path, entries: Sequence[Entry]) -> str:
        """Make the snapshot. It is named by what was copied, which may be newer than what was scanned."""
        with self._partial() as partial:
            tree = partial / "tree"
            tree.mkdir(mode=0o700)
            hashes = _write_tree(source, entries, tree)
            digest = tree_digest(entries, hashes)
            _flush(tree, entries)
            try:
                tree.rename(self._root / digest)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
            _flush_one(self._root)
            return digest

    @contextmanager
    def _partial(self) -> Iterator[Path]:
        """A directory to work in; the lock on it tells a live one from a leftover."""
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=self._root))
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove what a crash left half-made."""
        for partial in self._root.glob(f"{PARTIAL_PREFIX}*"):
            try:
                descriptor = os.open(partial, os.O_RDONLY)
            except OSError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            else:
                shutil.rmtree(partial, ignore_errors=True)
            finally:
                os.close(descriptor)


def _readable_directory(directory: str) -> Path:
    path = Path(directory)
    try:
        os.scandir(path).close()
    except NotADirectoryError:
        problem = Problem(message="is not a directory", file=directory)
    except FileNotFoundError:
        problem = Problem(message="there is no such directory", file=directory)
    except OSError as error:
        problem = Problem(message=f"cannot be read: {error.strerror}", file=directory)
    except ValueError:
        problem = Problem(message="is not the name of a directory", file=repr(directory))
    else:
        return path
    raise InvalidInput([problem])


def _write_tree(source: Path, entries: Iterable[Entry], tree: Path) -> dict[str, str]:
    """Write every entry below `tree`; the hashes of what was written, by path."""
    hashes: dict[str, str] = {}
    for entry in entries:
        target = tree / entry.path
        if entry.kind is Kind.DIRECTORY:
            target.mkdir()
            target.chmod(entry.mode)
        elif entry.kind is Kind.LINK:
            target.symlink_to(entry.target)
        else:
            with target.open("xb") as file:
                hashes[entry.path] = hash_file(source / entry.path, file.write)
                os.fchmod(file.fileno(), entry.mode)
    return hashes


def _flush(tree: Path, entries: Iterable[Entry]) -> None:
    """Bring a written tree to the disk: together, so that the file system's journal groups it."""
    paths = [tree, *(tree / entry.path for entry in entries if entry.kind is not Kind.LINK)]
    with ThreadPoolExecutor(FLUSHING_THREADS) as threads:
        list(threads.map(_flush_one, paths))


def _flush_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.1f} MiB"
