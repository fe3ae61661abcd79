"""What of an artifact directory may become a version now: what is whole, while programs still write there.

Called by `sync`. A checkpoint that is being written must never become a version. What is known to be whole by
the way it is written is taken as it is: what a link to the latest checkpoint names (that of the SDK, or a
`*.latest_checkpoint` as AtomicDirectory makes them), and the older ones beside it. Anything else counts as
moving while a program holds it open for writing or has changed it a moment ago.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, LINK
from tarmac.node import procfs
from tarmac.node.protocol import UNFINISHED

QUIET_S = 2.0
"""A file that was changed more recently may be one of several that are written one after the other."""

_ATOMIC_LINK = re.compile(r"(.*\.latest_checkpoint|latest_pt)")
_SDK_LINK = "latest"
_NUMBERED = re.compile(r"(.*?)(\d+)(_force)?")
_DRAFTS = re.compile(rf"{re.escape(UNFINISHED)}.*|.*\.latest_checkpoint_temp")


@dataclass(frozen=True, slots=True)
class Found:
    """One thing in the directory; `stamp` changes whenever it may have. `file_id` is its inode."""

    path: str
    kind: str
    mode: int
    size_bytes: int
    mtime_ns: int
    stamp: tuple[int, ...]
    file_id: tuple[int, int]
    target: str = ""


def scan(root: str) -> list[Found]:
    """Everything below a directory, by path; drafts of checkpoints and special files are left out."""
    return sorted(_walk(root, ""), key=lambda found: os.fsencode(found.path))


def unfinished(found: Iterable[Found], *, seen_at: Collection[str]) -> set[str]:
    """Directories of checkpoints that no link to the latest one has come to yet: somebody writes them.

    `seen_at` are the paths under which programs know the artifact directory: links may be absolute.
    """
    everything = list(found)
    behind: dict[tuple[str, str], int] = {}
    for link in everything:
        parent, name = _split(link.path)
        if link.kind == LINK and _ATOMIC_LINK.fullmatch(name):
            numbered = _NUMBERED.fullmatch(_sibling(link, parent, seen_at) or "")
            if numbered is not None:
                behind[parent, numbered[1]] = int(numbered[2])
    left: set[str] = set()
    for item in everything:
        parent, name = _split(item.path)
        numbered = _NUMBERED.fullmatch(name) if item.kind == DIRECTORY else None
        if numbered is not None and int(numbered[2]) > behind.get((parent, numbered[1]), int(numbered[2])):
            left.add(item.path)
    return left


def linked(found: Iterable[Found], *, seen_at: Collection[str]) -> set[str]:
    """Directories that are whole because a link to the latest checkpoint names them or a later one."""
    everything = list(found)
    latest: dict[tuple[str, str], int] = {}
    whole: set[str] = set()
    for link in everything:
        parent, name = _split(link.path)
        if link.kind == LINK and (name == _SDK_LINK or _ATOMIC_LINK.fullmatch(name)):
            sibling = _sibling(link, parent, seen_at)
            numbered = _NUMBERED.fullmatch(sibling or "")
            if sibling:
                whole.add(_join(parent, sibling))
            if numbered is not None:
                latest[parent, numbered[1]] = int(numbered[2])
    for item in everything:
        parent, name = _split(item.path)
        numbered = _NUMBERED.fullmatch(name) if item.kind == DIRECTORY else None
        if numbered is not None and int(numbered[2]) <= latest.get((parent, numbered[1]), -1):
            whole.add(item.path)
    return whole


def below(path: str, directories: Collection[str]) -> bool:
    """Whether a path is one of these directories, or inside one."""
    if not directories:
        return False
    parts = path.split("/")
    return any("/".join(parts[:length]) in directories for length in range(1, len(parts) + 1))


def inside(target: str, *, seen_at: Collection[str]) -> str | None:
    """The path within the artifact that an absolute link names; None where it leads elsewhere."""
    for place in seen_at:
        if target == place:
            return ""
        if target.startswith(f"{place}/"):
            path = os.path.normpath(target[len(place) + 1 :])
            return None if path.startswith("..") else ("" if path == "." else path)
    return None


def being_written(found: Iterable[Found]) -> set[str]:
    """The files among these that a program of this user holds open for writing."""
    wanted: Mapping[tuple[int, int], str] = {item.file_id: item.path for item in found if item.kind == FILE}
    if not wanted:
        return set()
    return {wanted[file_id] for file_id in _open_for_writing() if file_id in wanted}


def changed_since(found: Iterable[Found], since: float) -> set[str]:
    """The files among these that were changed at that time or later."""
    since_ns = int(since * 1e9)
    return {item.path for item in found if item.kind == FILE and item.mtime_ns >= since_ns}


def _walk(root: str, directory: str) -> Iterator[Found]:
    try:
        with os.scandir(os.path.join(root, directory)) as listing:  # noqa: PTH118 - names may be any bytes
            items = list(listing)
    except (FileNotFoundError, NotADirectoryError):
        return  # gone since its parent was listed
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
        target=os.readlink(item.path) if kind == LINK else "",  # noqa: PTH115
    )


def _open_for_writing() -> Iterator[tuple[int, int]]:
    """Which files are, by what the disk calls them. What another user's program does cannot be seen."""
    proc = procfs.of_machine()
    for pid in procfs.pids(proc):
        try:
            handles = os.listdir(f"{proc}/{pid}/fd")  # noqa: PTH208
        except OSError:
            continue
        for handle in handles:
            try:
                status = os.stat(f"{proc}/{pid}/fd/{handle}")  # noqa: PTH116
                if stat.S_ISREG(status.st_mode) and _writes(f"{proc}/{pid}/fdinfo/{handle}"):
                    yield status.st_dev, status.st_ino
            except OSError:
                continue  # closed since


def _writes(information: str) -> bool:
    with open(information, "rb") as file:  # noqa: PTH123
        flags = next(line for line in file if line.startswith(b"flags:"))
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _sibling(link: Found, parent: str, seen_at: Collection[str]) -> str | None:
    """The name beside a link that it leads to."""
    target = link.target
    path = inside(target, seen_at=seen_at) if target.startswith("/") else _join(parent, target)
    if path is None:
        return None
    place, name = _split(os.path.normpath(path))
    return name if place == parent else None


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent, name


def _join(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent else name
