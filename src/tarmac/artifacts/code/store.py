"""`DirectoryCodeStore`: snapshots of code directories and archives, named by the digest of their content.

Wired in `server/wiring.py`; `control` calls `stage` when it stages a run, the runner makes its working
directory from `ROOT/DIGEST`, and `arrivals.py` stores uploads of clients here. Contents are stored once, in
packs; a snapshot is a list of them. Both are written under a temporary name, flushed and renamed: completely
or not at all. `refuse_unfit` checks a run's code on the submitter's machine before it is stored, for the
server and `tarmac check`.
"""

import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tarmac.api.files import CodeChange
from tarmac.artifacts.code import packs, tree
from tarmac.artifacts.code.archives import is_archive, read_archive
from tarmac.artifacts.code.content import HashMemory, Unreadable, Vanished, hash_file, tree_digest
from tarmac.model import codec
from tarmac.model.errors import InvalidInput, NotFound, Problem, Unavailable
from tarmac.model.ports import StagedCode
from tarmac.model.site import SiteRequest
from tarmac.model.spec import LocalDirectory, Repository, RunSpec
from tarmac.node.files import untrusted
from tarmac.node.files.codestore import PACKS, is_digest

DEFAULT_LIMIT_BYTES = 1 << 30
DEFAULT_TIMEOUT_S = 600.0
SCANS = 3

GLANCE_S = 0.25
"""The same under the usual limit alone: an oversized directory mostly has large files."""

COUNT_S = 5.0
"""The maximum time to count a directory with a limit, before its code is accepted without a count."""


class DirectoryCodeStore:
    """Snapshots under one root directory. Implements `CodeStore` and `StreamsCode`; thread-safe.

    Code of more than `limit_bytes` is refused if its run file sets no limit, as is code that takes longer to
    copy than `timeout_s`. `leave_out` are directories that are excluded from every snapshot even inside its
    directory, such as the tarmac home; the root is always excluded.
    """

    def __init__(
        self,
        root: Path,
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        leave_out: Sequence[Path] = (),
    ) -> None:
        self.limit_bytes = limit_bytes
        self._timeout_s = timeout_s
        self._root = root
        self._leave_out = (root, *leave_out)
        self._memory = HashMemory()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        packs.sweep_partials(root)
        self.packs = packs.Packs(root / PACKS)

    def stage(self, code: LocalDirectory | Repository) -> StagedCode:
        if isinstance(code, Repository):
            raise InvalidInput(f"code from a git repository cannot be fetched here: {code.url}")
        if code.digest is None:
            return StagedCode(digest=self.snapshot(code))
        self.check_sent(code)
        return StagedCode(digest=code.digest)

    def check_sent(self, code: LocalDirectory) -> None:
        """Refuse code whose uploaded snapshot is missing or exceeds its limit. Counts as use."""
        assert code.digest is not None
        try:
            if not is_digest(code.digest):
                raise FileNotFoundError
            os.utime(self._root / code.digest)
            size_bytes = packs.size_bytes(self._root / code.digest, besides=code.extra_files)
        except FileNotFoundError:
            raise InvalidInput(
                f"code: there is no snapshot {code.digest[:80]!r} here", hint="send the directory again"
            ) from None
        limit_bytes = self.limit_of(code)
        if size_bytes > limit_bytes:
            raise InvalidInput(
                f"code: {code.path} holds {tree.mebibytes(size_bytes)},"
                f" more than the {tree.mebibytes(limit_bytes)} allowed",
                hint=tree.leave_out_hint(code),
            )

    def limit_of(self, code: LocalDirectory) -> int:
        """The size limit of this code."""
        return self.limit_bytes if code.limit_bytes is None else code.limit_bytes

    def snapshot(self, code: LocalDirectory | str) -> str:
        """Store a copy of a directory, without ignored files, or of an archive; returns the digest of the
        copy.
        """
        code = LocalDirectory(path=code) if isinstance(code, str) else code
        with counted(self._root, code):
            try:
                return self._copied(code, tree.at_most(self._timeout_s))
            except tree.TooSlow:
                raise InvalidInput(
                    f"{code.path} cannot be copied within {self._timeout_s:g} s",
                    hint=f"{tree.leave_out_hint(code)}; code.timeout_s in settings.toml sets the limit",
                ) from None

    def unpack(
        self, file: BinaryIO, code: LocalDirectory, check_time: Callable[[], None] = tree.no_hurry
    ) -> str:
        """Store the content of an archive. It goes straight into a pack, without files on the disk."""
        try:
            with self.packs.writer() as writer:
                keep = partial(self.packs.keep, writer)
                entries, hashes = read_archive(
                    file,
                    code,
                    write=_timed(writer.write, check_time),
                    keep=keep,
                    limit_bytes=self.limit_of(code),
                )
                fresh = self.packs.add(writer)
            return self.commit(entries, hashes, fresh)
        except OSError as error:
            raise self._no_room(code.path, error) from None

    def commit(
        self, entries: Sequence[tree.Entry], hashes: Mapping[str, str], fresh: Mapping[str, packs.Place]
    ) -> str:
        """Make the snapshot of a tree with stored contents; `hashes` by path, `fresh` by hash."""
        digest = tree_digest(entries, hashes)
        target = self._root / digest
        if target.exists():
            os.utime(target)
            return digest
        places: dict[str, packs.Place] = {}
        for path, content in hashes.items():
            place = fresh.get(content) or self.packs.place(content)
            if place is None:
                raise Vanished(path)
            places[path] = place
        packs.write_snapshot(self._root, digest, entries, places)
        return digest

    def parts(self, digest: str) -> Sequence[str]:
        return list(packs.large_contents(self._snapshot_of(digest), self.packs).values())

    def stream(self, digest: str) -> Iterator[bytes]:
        place = self.packs.place(digest)
        try:
            if place is not None:
                yield from self.packs.part(place)
            else:
                yield from packs.bundle(self._snapshot_of(digest), self.packs)
        except OSError as error:
            raise Unavailable(f"snapshot {digest} cannot be read: {error}") from None

    def _snapshot_of(self, digest: str) -> Path:
        path = self._root / digest
        if not is_digest(digest) or not path.is_file():
            raise NotFound(f"there is no snapshot {digest[:80]!r} here")
        return path

    def changes(self, before: str | None, after: str | None) -> list[CodeChange]:
        """The differing files of two snapshots (None: no code); raises NotFound if one was removed."""
        try:
            return packs.code_changes(self._root, before, after)
        except FileNotFoundError:
            raise NotFound(
                "the code of one of these runs is no longer kept, so files cannot be compared",
                hint="code.keep_days in settings.toml says how long code is kept",
            ) from None

    def remove_unused(self, *, snapshots_before: float, packs_before: float) -> int:
        """Remove snapshots not used since a time, then packs that no snapshot names; returns their number.

        Packs have their own age: an interrupted upload finds its sent contents again.
        """
        removed = 0
        needed: set[str] = set()
        for path in packs.snapshots(self._root):
            if path.stat().st_mtime >= snapshots_before:
                needed |= packs.summary(path)[1]
                continue
            path.unlink()
            removed += 1
        return removed + self.packs.remove(needed=needed, before=packs_before)

    def use(self, digests: Iterable[str], *, now: float) -> None:
        """Record the use of these snapshots at `now`."""
        for digest in digests:
            with suppress(OSError):
                os.utime(self._root / digest, (now, now))

    def _copied(self, code: LocalDirectory, check_time: Callable[[], None]) -> str:
        if is_archive(Path(code.path)):
            with _opened(Path(code.path)) as file:
                return self.unpack(file, code, check_time)
        source = tree.readable_directory(code.path)
        for _ in range(SCANS):
            try:
                return self._snapshot(source, code, check_time)
            except Vanished:
                continue
            except Unreadable as failure:
                raise InvalidInput(
                    [tree.unreadable(failure.path, failure.error, tree.leave_out_hint(code))]
                ) from None
        raise Unavailable(
            f"{code.path} keeps changing while it is being copied", hint="submit again when it rests"
        )

    def _snapshot(self, source: Path, code: LocalDirectory, check_time: Callable[[], None]) -> str:
        entries = tree.scan(source, code=code, leave_out=self._leave_out, check_time=check_time)
        tree.check_size(entries, source=str(source), code=code, limit_bytes=self.limit_of(code))
        known = self._memory.known(source, entries)
        files = {entry.path: entry.under(source) for entry in entries if entry.kind is tree.Kind.FILE}
        if all(self._is_stored(known.get(path)) for path in files):
            return self.commit(entries, known, {})
        try:
            with self.packs.writer() as writer:
                write, hashes = _timed(writer.write, check_time), dict(known)
                for path, file in files.items():
                    if not self._is_stored(hashes.get(path)):
                        content = hashes[path] = hash_file(file, write)
                        self.packs.keep(writer, content)  # copied during the reading
                fresh = self.packs.add(writer)
            self._memory.remember(source, entries, hashes)
            return self.commit(entries, hashes, fresh)
        except OSError as error:
            raise self._no_room(str(source), error) from None

    def _is_stored(self, content: str | None) -> bool:
        return content is not None and self.packs.place(content) is not None

    def _no_room(self, source: str, error: OSError) -> Unavailable:
        return Unavailable(
            f"cannot keep a copy of {source} in {self._root}: {error.strerror}",
            hint="free some space there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None,
        )


def _timed(write: Callable[[bytes], object], check_time: Callable[[], None]) -> Callable[[bytes], object]:
    def checked(chunk: bytes) -> None:
        check_time()
        write(chunk)

    return checked


def _opened(archive: Path) -> BinaryIO:
    try:
        return archive.open("rb")
    except OSError as error:
        raise InvalidInput([tree.unreadable(archive, error)]) from None


_PREFIX = ".trying-"
MOST_TRIES = 5

_THIS_PROCESS = secrets.token_hex(8)
"""Process ids are reused, this value is not."""


@contextmanager
def counted(root: Path, code: LocalDirectory) -> Iterator[None]:
    """Record that this code is being copied; raises InvalidInput if the server ended in too many copies.

    After this error a repeated request is tried again: the user may have corrected the code.
    """
    mark = root / f"{_PREFIX}{hashlib.sha256(repr(code).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    before, whose = _read(mark)
    if whose == _THIS_PROCESS:  # another thread copies the same: one record suffices
        yield
        return
    if before >= MOST_TRIES:
        mark.unlink(missing_ok=True)
        raise InvalidInput(
            f"{code.path} cannot be copied: the server ended {before} times while it tried",
            hint="server.log in the tarmac home may tell why",
        )
    with suppress(OSError):  # a full disk: the copy reports it
        untrusted.write_new(str(mark), f"{before + 1} {_THIS_PROCESS}".encode())
    try:
        yield
    finally:
        with suppress(OSError):
            mark.unlink()


def _read(mark: Path) -> tuple[int, str]:
    """The number of tries, and the process of the last one."""
    try:
        tries, _, whose = untrusted.read_bytes(str(mark), 64).decode().partition(" ")
        return int(tries), whose
    except (OSError, ValueError):
        return 0, ""


def refuse_unfit(code: LocalDirectory, *, filename: str, usual_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
    """Raise InvalidInput for a directory of code that cannot be copied.

    The count has more time if the dialect or the run file sets a limit: the usual short run file is not
    delayed by a walk through its directory. `usual_bytes`: the limit of any other code.
    """
    path = Path(code.path)
    if not os.path.exists(path):  # noqa: PTH110 -- a name longer than any file's does not exist either
        found = "does not exist"
    elif is_archive(path):
        if os.access(path, os.R_OK):
            return
        found = "cannot be read"
    elif not path.is_dir():
        found = "is neither a directory nor an archive (.zip, .tar, .tar.gz, .tar.xz)"
    elif not os.access(path, os.R_OK | os.X_OK):
        found = "cannot be read"
    else:
        limited = code.limit_bytes is not None
        limit_bytes = usual_bytes if code.limit_bytes is None else code.limit_bytes
        with suppress(tree.TooSlow):  # the copy counts again, with more time
            entries = tree.scan(path, code=code, check_time=tree.at_most(COUNT_S if limited else GLANCE_S))
            tree.check_size(entries, source=code.path, code=code, limit_bytes=limit_bytes)
        return
    message, hint = f"code: {code.path} {found}", "code names the directory to copy"
    raise InvalidInput([Problem(message=message, file=filename, hint=hint)])


def with_own_image(spec: RunSpec) -> RunSpec:
    """The spec whose code has the local image of a run for a site, wherever it is, unless it is rehearsed."""
    code, image = spec.code, spec.site.apptainer if spec.site is not None else None
    if not isinstance(code, LocalDirectory) or code.extra_files or image is None or image.remote:
        return spec
    if spec.rehearsal is not None:
        return spec
    place = image.source or str(Path(code.path, image.path))
    return codec.replace(spec, code=codec.replace(code, extra_files={image.path: place}))


def missing_image(site: SiteRequest, *, directory: str) -> str | None:
    """The error for a missing image on this machine: only a rehearsal starts without it."""
    image = site.apptainer
    path = Path(directory, image.source or image.path) if image is not None and not image.remote else None
    if path is None or path.is_file():
        return None
    known = "write Type: remote if it lies on the site"
    return f"the image {path} does not exist, and only a rehearsal starts without it; {known}"
