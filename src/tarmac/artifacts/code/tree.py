"""Lists the entries of a directory for a code snapshot, without reading content; checks trees of others.

`store.py` calls `scan` first, as does a client that sends a directory; only the returned entries are read.
Directories, regular files and symbolic links that stay inside are included; sockets, FIFOs and device files
have no content to copy and are ignored. `refusals` checks archives, and trees that clients send, by their
names alone, before any of it is stored and without access to a disk: in their later form, links included.
"""

import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from tarmac.artifacts.code.ignore import OWN_FILE, Rules, rules_of
from tarmac.model.errors import InvalidInput, Problem, listed
from tarmac.model.spec import LocalDirectory

OWNER_MAY_ENTER = 0o700
"""Added to every directory's mode: a copy without this permission could be neither made nor removed."""

LARGEST_SHOWN = 5

LEAVE_OUT_HINT = f"leave it out in {OWN_FILE} if the run does not need it"

MOST_ENTRIES = 500_000
DEEPEST = 128
_LONGEST_NAME_BYTES = 255
_LONGEST_PATH_BYTES = 4_000
_LINKS_FOLLOWED = 40


class Kind(StrEnum):
    """The kind of an entry."""

    DIRECTORY = "directory"
    FILE = "file"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the tree. `path` is relative; `stamp` changes whenever the content may have changed.

    `mtime_ns` is the time set on a copy of a file; it is no part of the snapshot's digest. `source` is the
    place of a file that is elsewhere.
    """

    path: str
    kind: Kind
    mode: int
    size_bytes: int = 0
    stamp: tuple[int, ...] = ()
    changed_ns: int = 0
    mtime_ns: int = 0
    target: str = ""
    source: str = ""

    def under(self, root: Path) -> Path:
        """The file to read, for a snapshot of the directory `root`."""
        return root / (self.source or self.path)


def line_of(entry: Entry, *content: object) -> list[object]:
    """An entry in the form of snapshots and uploads; `content` are their fields for a file's content."""
    if entry.kind is Kind.DIRECTORY:
        return ["d", entry.mode, entry.path]
    if entry.kind is Kind.LINK:
        return ["l", entry.target, entry.path]
    return ["f", entry.mode, entry.path, *content]


class TooSlow(Exception):
    """The reading of a tree exceeded its time."""


def no_hurry() -> None:
    """No time limit, for users who read their own directory."""


def at_most(seconds: float) -> Callable[[], None]:
    """A function that raises TooSlow when it is called after this time."""
    due = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > due:
            raise TooSlow

    return check


def scan(
    root: Path,
    *,
    code: LocalDirectory | None = None,
    leave_out: Sequence[Path] = (),
    check_time: Callable[[], None] = no_hurry,
) -> list[Entry]:
    """The entries of a snapshot of `root`, by path. Raises InvalidInput with the first few problems.

    `code` defines the ignored entries (by default through ignore files). `leave_out` are directories that are
    excluded from every snapshot: those of the snapshots themselves. `check_time` is called for every entry,
    and may raise.
    """
    code = code or LocalDirectory(path=str(root))
    rules = rules_of(root, ignore_file=code.ignore_file, exclude=code.exclude, whole=code.whole)
    scanner = _Scanner(root, frozenset(_identities(leave_out)), code, check_time)
    walked = list(scanner.walk(rules))
    entries = sorted([*walked, *_extra_entries(code, walked)], key=lambda entry: os.fsencode(entry.path))
    problems = scanner.problems
    if len(problems) > LARGEST_SHOWN:
        found = [f"{os.path.relpath(problem.file or '', root)} {problem.message}" for problem in problems]
        message = f"{len(found):,} things cannot be copied: {listed(sorted(found), 3, '; ')}"
        problems = [Problem(message=message, file=str(root), hint=leave_out_hint(code))]
    if problems:
        raise InvalidInput(problems)
    return entries


def _extra_entries(code: LocalDirectory, found: Sequence[Entry]) -> Iterator[Entry]:
    """The entries of the code's own files, with the directories above them that the walk left out."""
    known = {entry.path for entry in found}
    for path, source in code.extra_files.items():
        real = os.path.realpath(source)
        try:
            status = Path(real).stat()
        except OSError as error:
            raise InvalidInput([unreadable(source, error, "the run names this file")]) from None
        problem = refusal_of_name(path) if stat.S_ISREG(status.st_mode) else "is no file"
        if problem is not None:
            raise InvalidInput([Problem(message=problem, file=source)])
        parents = [path[:at] for at, character in enumerate(path) if character == "/"]
        yield from (Entry(parent, Kind.DIRECTORY, 0o755) for parent in parents if parent not in known)
        known.update(parents)
        yield replace(_file(path, status), source=real)


def readable_directory(directory: str) -> Path:
    """The path of a readable directory; raises InvalidInput for anything else."""
    path = Path(directory)
    try:
        os.scandir(path).close()
    except NotADirectoryError:
        problem = Problem(message="is neither a directory nor an archive", file=directory)
    except FileNotFoundError:
        problem = Problem(message="there is no such directory", file=directory)
    except OSError as error:
        problem = Problem(message=f"cannot be read: {error.strerror}", file=directory)
    except ValueError:
        problem = Problem(message="is not the name of a directory", file=repr(directory))
    else:
        return path
    raise InvalidInput([problem])


def check_size(entries: Sequence[Entry], *, source: str, code: LocalDirectory, limit_bytes: int) -> None:
    """Refuse more than `limit_bytes`, with the size and the largest files."""
    entries = [entry for entry in entries if entry.path not in code.extra_files]
    total_bytes = sum(entry.size_bytes for entry in entries)
    if total_bytes <= limit_bytes:
        return
    files = sorted(entries, key=lambda entry: (-entry.size_bytes, entry.path))[:LARGEST_SHOWN]
    largest = ", ".join(f"{entry.path} ({mebibytes(entry.size_bytes)})" for entry in files)
    message = (
        f"holds {mebibytes(total_bytes)} of code, more than the {mebibytes(limit_bytes)} allowed"
        f"; the largest files: {largest}"
    )
    raise InvalidInput([Problem(message=message, file=source, hint=leave_out_hint(code))])


def leave_out_hint(code: LocalDirectory) -> str:
    """A hint on excluding files from this code."""
    if code.whole:
        return "exclude it if the run does not need it"
    return f"leave it out in {code.ignore_file or OWN_FILE} if the run does not need it"


def mebibytes(size_bytes: int) -> str:
    """A size in the form for messages."""
    return f"{size_bytes / 2**20:,.1f} MiB"


def unreadable(path: str | Path, error: OSError, hint: str = LEAVE_OUT_HINT) -> Problem:
    """The problem of an unreadable file or directory."""
    return Problem(message=f"cannot be read: {error.strerror}", file=str(path), hint=hint)


@dataclass
class _Scanner:
    """One walk over a tree; problems are collected on the way."""

    root: Path
    forbidden: frozenset[tuple[int, int]]
    code: LocalDirectory
    check_time: Callable[[], None]

    def __post_init__(self) -> None:
        self.problems: list[Problem] = []
        self._hint = leave_out_hint(self.code)
        self._real_root = os.path.realpath(self.root)
        self._pending: list[tuple[str, Rules]] = []

    def walk(self, rules: Rules) -> Iterator[Entry]:
        """Every entry. Directories wait in a list: Python's recursion limit must not bound their depth."""
        self._pending.append(("", rules))
        while self._pending:
            yield from self._below(*self._pending.pop())

    def _below(self, directory: str, rules: Rules) -> Iterator[Entry]:
        try:
            with os.scandir(self.root / directory) as listing:
                items = list(listing)
        except FileNotFoundError:
            return  # removed since its parent was listed
        except OSError as error:
            self.problems.append(unreadable(self.root / directory, error, self._hint))
            return
        prefix = f"{directory}/" if directory else ""
        for item in items:
            self.check_time()
            path = prefix + item.name
            if path in self.code.extra_files:
                continue
            is_directory = item.is_dir(follow_symlinks=False)
            if rules.ignores(path, is_directory=is_directory):
                continue
            try:
                status = item.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if is_directory:
                yield from self._directory(path, status, rules)
            elif stat.S_ISREG(status.st_mode):
                yield _file(path, status)
            elif stat.S_ISLNK(status.st_mode):
                yield from self._link(path, rules)

    def _directory(self, path: str, status: os.stat_result, rules: Rules) -> Iterator[Entry]:
        if (status.st_dev, status.st_ino) in self.forbidden:
            return
        inner = rules.within(self.root, path)
        if inner is not None:
            yield Entry(path, Kind.DIRECTORY, stat.S_IMODE(status.st_mode) & 0o777 | OWNER_MAY_ENTER)
            self._pending.append((path, inner))

    def _link(self, path: str, rules: Rules) -> Iterator[Entry]:
        full = self.root / path
        try:
            target = os.readlink(full)  # noqa: PTH115 - the very text, not a tidied path
        except OSError:
            return  # replaced since it was listed
        if self._stays_inside(path, target):
            yield Entry(path, Kind.LINK, 0, target=target)
        elif not rules.links_out:
            message = f"is a symbolic link that leaves the directory: {target}"
            self.problems.append(Problem(message=message, file=str(full), hint=self._hint))

    def _stays_inside(self, path: str, target: str) -> bool:
        """Whether the link leads inside, both as written and as the file system follows it now."""
        if target.startswith("/"):
            return False
        written = os.path.normpath(os.path.join(os.path.dirname(path), target))  # noqa: PTH118, PTH120
        followed = os.path.realpath(self.root / path)
        inside = self._real_root.rstrip("/") + "/"
        return written != ".." and not written.startswith("../") and (followed + "/").startswith(inside)


def _file(path: str, status: os.stat_result) -> Entry:
    stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return Entry(
        path,
        Kind.FILE,
        stat.S_IMODE(status.st_mode) & 0o777,
        size_bytes=status.st_size,
        stamp=stamp,
        changed_ns=max(status.st_mtime_ns, status.st_ctime_ns),
        mtime_ns=status.st_mtime_ns,
    )


def _identities(directories: Sequence[Path]) -> Iterator[tuple[int, int]]:
    for directory in directories:
        try:
            status = directory.stat()
        except OSError:
            continue
        yield status.st_dev, status.st_ino


def refusals(entries: Sequence[Entry]) -> list[str]:
    """All problems of a tree: names that lead out, clashes, links that leave it."""
    if len(entries) > MOST_ENTRIES:
        return [f"holds {len(entries):,} files and directories, more than the {MOST_ENTRIES:,} allowed"]
    found = [problem for entry in entries if (problem := refusal_of_name(entry.path)) is not None]
    return found or [*_clashes(entries), *_escapes(entries)]


def refusal_of_name(path: str) -> str | None:
    """The problem of a path in a tree, if there is one."""
    parts = path.split("/")
    shown = _shown(path)
    if not path or path.startswith("/"):
        return f"{shown} is not a relative name"
    if "\0" in path:
        return f"{shown} holds a zero byte"
    if ".." in parts:
        return f"{shown} leads out of the directory"
    if "" in parts or "." in parts:
        return f"{shown} is not a plain name"
    if len(parts) > DEEPEST:
        return f"{shown} lies deeper than {DEEPEST} directories"
    try:
        encoded = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    except UnicodeEncodeError:
        return f"{shown} is not a name that a file can have"
    if max(encoded) > _LONGEST_NAME_BYTES or sum(encoded) + len(parts) > _LONGEST_PATH_BYTES:
        return f"{shown} is longer than a name may be"
    return None


def _clashes(entries: Sequence[Entry]) -> Iterator[str]:
    kinds: dict[str, Kind] = {}
    for entry in entries:
        if entry.path in kinds:
            yield f"{_shown(entry.path)} is there twice"
        kinds[entry.path] = entry.kind
    for entry in entries:
        above = entry.path.rpartition("/")[0]
        if above and kinds.get(above) is not Kind.DIRECTORY:
            found = "is not in the list" if above not in kinds else f"is a {kinds[above]}"
            yield f"{_shown(entry.path)} lies in {_shown(above)}, which {found}"


def _escapes(entries: Sequence[Entry]) -> Iterator[str]:
    links = {entry.path: entry.target for entry in entries if entry.kind is Kind.LINK}
    for path, target in links.items():
        if not target or "\0" in target or len(target.encode("utf-8", "replace")) > _LONGEST_PATH_BYTES:
            yield f"{_shown(path)} is a symbolic link to no possible name"
        elif _leaves(posixpath.dirname(path), target, links):
            yield f"{_shown(path)} is a symbolic link that leaves the directory: {_shown(target)}"


def _leaves(directory: str, target: str, links: dict[str, str]) -> bool:
    """Whether a link in `directory` leads out of the tree, as written or through other links.

    A chain longer than the kernel follows leads nowhere.
    """
    if target.startswith("/"):
        return True
    written = posixpath.normpath(posixpath.join(directory, target))
    if written == ".." or written.startswith("../"):
        return True
    at = directory.split("/") if directory else []
    ahead = target.split("/")[::-1]
    followed = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return True
            at.pop()
            continue
        at.append(part)
        inner = links.get("/".join(at))
        if inner is not None:
            followed += 1
            if inner.startswith("/"):
                return True
            if followed > _LINKS_FOLLOWED:
                return False  # the kernel stops as well: it leads nowhere
            at.pop()
            ahead += inner.split("/")[::-1]
    return False


def _shown(path: str) -> str:
    return repr(path if len(path) <= 120 else f"{path[:60]}...{path[-50:]}")
