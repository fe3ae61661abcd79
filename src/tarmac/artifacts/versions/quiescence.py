"""Finds the whole files of an artifact directory while programs still write there.

An incomplete checkpoint must never become a version, and a whole one must never be left out. A file is whole
if no program has it open for writing. A directory with a number in its name is one checkpoint: a half-written
or just changed file in it excludes the whole directory. The target of a link to the latest checkpoint (that
of the SDK, or a `*.latest_checkpoint` as AtomicDirectory makes them) is whole, with its older siblings; so is
the target of a file with the name of the latest one (`latest` of DeepSpeed), unless it was changed since.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, LINK
from tarmac.node.attempt.protocol import TORN, UNFINISHED
from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs
from tarmac.node.kernel.procfs import mapped_for_writing, open_for_writing

QUIET_S = 2.0
"""A directory with a newer change may get more files: they are written one after the other."""

_ATOMIC_LINK = re.compile(r"(.*\.latest_checkpoint|latest_pt)")
_LATEST_LINK = re.compile(r"(.*\.latest_checkpoint|latest_pt|latest)")
_POINTERS = frozenset({"latest", "latest_checkpointed_iteration.txt"})
_MOST_POINTER_BYTES = 256
_NUMBERED = re.compile(r"(.*?)(\d+)(_force)?")
_DRAFTS = re.compile(rf"{re.escape(UNFINISHED)}.*|{re.escape(TORN)}|.*\.latest_checkpoint_temp")
_DIGITS = re.compile(r"\d+")


class Found(NamedTuple):
    """One file, directory or link; `stamp` changes whenever the content may have changed.

    `file_id` is its inode; `renamed_ns` the time of a rename after its last change, otherwise 0. `target` is
    the target of a link, or the text of a file that names the latest checkpoint.
    """

    path: str
    kind: str
    mode: int
    size_bytes: int
    mtime_ns: int
    stamp: tuple[int, ...]
    file_id: tuple[int, int]
    target: str = ""
    renamed_ns: int = 0


def scan(root: str) -> list[Found]:
    """Everything below a directory, by path; drafts of checkpoints and special files are left out."""
    return sorted(_walk(root, ""), key=lambda found: os.fsencode(found.path))


def finished(found: Iterable[Found], *, seen_at: Collection[str]) -> list[Found]:
    """All entries except checkpoint directories that no link to the latest one names yet.

    `seen_at` are the paths under which programs know the artifact directory: links may be absolute.
    """
    items = list(found)
    behind = _newest(_targets(items, _ATOMIC_LINK, seen_at))
    left = {
        path for path, series, number in _numbered_directories(items) if number > behind.get(series, number)
    }
    return [item for item in items if not below(item.path, left)]


def linked(found: Iterable[Found], *, seen_at: Collection[str]) -> set[str]:
    """Directories that are whole because a link to the latest checkpoint names them or a later one."""
    items = list(found)
    targets = _targets(items, _LATEST_LINK, seen_at)
    whole, latest = set(targets), _newest(targets)
    pointers = [item for item in items if item.kind == FILE and item.target]
    whole |= {path for pointer in pointers if (path := _pointed_to(pointer, items)) is not None}
    return whole | {
        path for path, series, number in _numbered_directories(items) if number <= latest.get(series, -1)
    }


def names_earlier(pointer: Found, directory: str) -> bool:
    """Whether a file that names the latest checkpoint names an earlier one, and this one is newer."""
    numbered, named = _numbered(directory), _NUMBERED.fullmatch(pointer.target)
    if numbered is None or named is None:
        return False
    (parent, stem), number = numbered
    return _split(pointer.path)[0] == parent and named[1] in ("", stem) and int(named[2]) < number


def below(path: str, directories: Collection[str]) -> bool:
    """Whether a path is one of these directories, or inside one."""
    return bool(directories) and (path in directories or any(above in directories for above in parents(path)))


def parents(path: str) -> list[str]:
    """The parent directories of a path, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def kind_of(path: str) -> str:
    """A path without its numbers: checkpoints of one program are of one kind."""
    return _DIGITS.sub("#", path)


def inside(target: str, *, seen_at: Collection[str]) -> str | None:
    """The path within the artifact that an absolute link names; None if it leads elsewhere."""
    for place in seen_at:
        if target == place:
            return ""
        if target.startswith(f"{place}/"):
            path = os.path.normpath(target[len(place) + 1 :])
            return None if path.startswith("..") else ("" if path == "." else path)
    return None


def being_written(found: Iterable[Found]) -> dict[str, bool]:
    """The files among these that a program of this user has open for writing, or mapped in memory.

    True for files that are only appended to.
    """
    paths = {item.file_id: item.path for item in found if item.kind == FILE}
    if not paths:
        return {}
    proc = procfs.of_machine()
    pids = procfs.pids(proc)
    writers = open_for_writing(pids, paths, proc)
    mapped = mapped_for_writing(pids, paths, proc)
    return {
        paths[file_id]: file_id not in mapped and all(writers[file_id].values())
        for file_id in writers.keys() | mapped
    }


def unit_of(item: Found, found: Collection[Found], known: Collection[str]) -> str:
    """The unit of a file that is whole or half-written: the directory of one checkpoint, or the file itself.

    The directory is the nearest parent with a number in its name, unless it existed before (`known`), or has
    others of the file's kind, which differ from it by a number: then it may hold several checkpoints.
    """
    directory, name = _split(item.path)
    kind = kind_of(name)
    files = (_split(other.path) for other in found if other.kind == FILE)
    siblings = (other for place, other in files if place == directory and other != name)
    if "#" in kind and any(kind_of(sibling) == kind for sibling in siblings):
        return item.path
    while directory and not _DIGITS.search(_split(directory)[1]):
        directory = _split(directory)[0]
    if not directory or directory in known:
        return item.path
    while (above := _split(directory)[0]) and above not in known and _number(above) == _number(directory):
        directory = above
    return directory


def has_later(directory: str, found: Iterable[Found]) -> bool:
    """Whether a sibling directory with a higher number exists: its writer has continued."""
    own = _numbered(directory)
    if own is None:
        return False
    series, number = own
    beside = (each.path for each in found if each.kind == DIRECTORY and _split(each.path)[0] == series[0])
    return any(each[0] == series and each[1] > number for each in map(_numbered, beside) if each is not None)


def changed_since(found: Iterable[Found], since: float) -> set[str]:
    """The files among these that were changed at that time or later."""
    since_ns = int(since * 1e9)
    return {item.path for item in found if item.kind == FILE and item.mtime_ns >= since_ns}


def _pointed_to(pointer: Found, found: Iterable[Found]) -> str | None:
    """The directory that a file names as the latest checkpoint, if nothing in it was changed since."""
    parent, target = _split(pointer.path)[0], pointer.target
    number = int(target) if target.isdecimal() else None
    for item in found:
        place, name = _split(item.path)
        if item.kind != DIRECTORY or place != parent:
            continue
        numbered = _numbered(item.path)
        if name == target or (numbered is not None and numbered[1] == number):
            inner = (file for file in found if file.kind == FILE and file.path.startswith(f"{item.path}/"))
            return item.path if all(file.mtime_ns <= pointer.mtime_ns for file in inner) else None
    return None


def _numbered(path: str) -> tuple[tuple[str, str], int] | None:
    """The series of a path with a number in its name (its parent, and the name before), and the number."""
    parent, name = _split(path)
    match = _NUMBERED.fullmatch(name)
    return ((parent, match[1]), int(match[2])) if match is not None else None


def _numbered_directories(found: Iterable[Found]) -> Iterator[tuple[str, tuple[str, str], int]]:
    """The path, series and number of each directory with a number in its name."""
    for item in found:
        numbered = _numbered(item.path) if item.kind == DIRECTORY else None
        if numbered is not None:
            yield (item.path, *numbered)


def _newest(paths: Iterable[str]) -> dict[tuple[str, str], int]:
    """The number of the latest checkpoint of each series, by the targets of links."""
    return dict(filter(None, map(_numbered, paths)))


def _targets(found: Iterable[Found], names: re.Pattern[str], seen_at: Collection[str]) -> list[str]:
    """The siblings to which links with these names lead."""
    links = (item for item in found if item.kind == LINK and names.fullmatch(_split(item.path)[1]))
    return [path for link in links if (path := _sibling(link, seen_at)) is not None]


def _walk(root: str, directory: str) -> Iterator[Found]:
    try:
        with os.scandir(os.path.join(root, directory)) as listing:  # noqa: PTH118 - names may be any bytes
            items = list(listing)
    except (FileNotFoundError, NotADirectoryError):
        return  # removed since its parent was listed
    for item in items:
        if _DRAFTS.fullmatch(item.name):
            continue
        path = _join(directory, item.name)
        try:
            status = item.stat(follow_symlinks=False)
            found = _found(item, path, status)
        except FileNotFoundError:
            continue
        if found is not None:
            yield found
            if found.kind == DIRECTORY:
                yield from _walk(root, path)


def _found(item: os.DirEntry[str], path: str, status: os.stat_result) -> Found | None:
    kind = {stat.S_IFDIR: DIRECTORY, stat.S_IFREG: FILE, stat.S_IFLNK: LINK}.get(stat.S_IFMT(status.st_mode))
    if kind is None:
        return None
    is_file = kind == FILE
    return Found(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        size_bytes=status.st_size if is_file else 0,
        mtime_ns=status.st_mtime_ns if is_file else 0,
        stamp=(status.st_ino, status.st_size, status.st_mtime_ns) if is_file else (),
        file_id=(status.st_dev, status.st_ino),
        target=os.readlink(item.path) if kind == LINK else _pointer_text(item, status),  # noqa: PTH115
        renamed_ns=status.st_ctime_ns if status.st_ctime_ns > status.st_mtime_ns else 0,
    )


def _pointer_text(item: os.DirEntry[str], status: os.stat_result) -> str:
    """The text of a file that names the latest checkpoint by its own name; "" for any other."""
    if item.name not in _POINTERS or not stat.S_ISREG(status.st_mode):
        return ""
    try:
        text = untrusted.read_bytes(item.path, _MOST_POINTER_BYTES).decode().strip()
    except (OSError, ValueError):
        return ""
    return text if "/" not in text else ""


def _number(path: str) -> list[str]:
    return _DIGITS.findall(_split(path)[1])


def _sibling(link: Found, seen_at: Collection[str]) -> str | None:
    """The path to which a link leads, if that is beside it."""
    parent, target = _split(link.path)[0], link.target
    path = inside(target, seen_at=seen_at) if target.startswith("/") else _join(parent, target)
    path = os.path.normpath(path) if path is not None else None
    return path if path is not None and _split(path)[0] == parent else None


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent, name


def _join(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent else name
