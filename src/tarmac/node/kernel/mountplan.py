"""Plans the mounts for literal paths: a pure function of the requested binds and the disk's content.

Called by `mounts`, which executes the plan. Nothing is ever created on the real disk: if a target does not
exist, a small file system in memory covers its nearest existing parent; it shows all entries of the parent,
and the target as well. If that parent is the root of the disk, the attempt gets a root of its own, made in
the same way. A bind without such a place inside an earlier bind's target (`/data/ID` in `/data`) turns that
target into a cover: it shows the entries of the earlier bind's source, and the new target.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Sequence

DIRECTORY = "directory"
FILE = "file"
LINK = "link"
ROOT = "/"

_MOST_ENTRIES = 500
"""The limit for covered directories: covering a fuller one would cost every attempt too much."""


class Bind(NamedTuple):
    """`source` appears at `target`; with `read_only`, it cannot be changed through there.

    `variables` name the target if the bind exists, else the source: programs that read them always find it.
    """

    source: str
    target: str
    read_only: bool = False
    variables: tuple[str, ...] = ()


class Cover(NamedTuple):
    """A directory to cover: its entries, shown again, and its new ones (relative path -> kind).

    With `source`, the entries are those of that directory instead; with `read_only`, they cannot be changed.
    """

    directory: str
    entries: tuple[tuple[str, str], ...]
    new: tuple[tuple[str, str], ...]
    source: str = ""
    read_only: bool = False


class Plan(NamedTuple):
    """Covers first (the root, outer before inner ones), then binds. `refused` are (target, reason)."""

    covers: tuple[Cover, ...]
    binds: tuple[Bind, ...]
    refused: tuple[tuple[str, str], ...]


class Disk:
    """The facts about the real disk that a plan needs."""

    def kind(self, path: str) -> Optional[str]:
        """DIRECTORY or FILE, links followed; None if the path does not exist."""
        if os.path.isdir(path):
            return DIRECTORY
        return FILE if os.path.exists(path) else None

    def entries(self, path: str) -> Sequence[tuple[str, str]]:
        """(name, kind) of the entries of a directory, links not followed."""
        with os.scandir(path) as found:
            return [(entry.name, _entry_kind(entry)) for entry in found]

    def real(self, path: str) -> str:
        """The path without symbolic links."""
        return os.path.realpath(path)


def plan_mounts(wishes: Sequence[Bind], disk: Disk) -> Plan:
    """The mounts for every bind that is possible; later binds may build on earlier targets."""
    missing: dict[str, list[tuple[str, str]]] = {}
    extended: dict[Bind, list[tuple[str, str]]] = {}
    binds: list[Bind] = []
    refused: list[tuple[str, str]] = []
    for wish in wishes:
        around = [bind for bind in binds if wish.target.startswith(f"{bind.target}/")]
        outer = max(around, key=lambda bind: len(bind.target), default=None)  # the innermost
        kind = disk.kind(wish.source)
        if kind is None:
            reason: Optional[str] = f"{wish.source} does not exist"
        elif outer is not None:
            reason = _consider_inside(wish, kind, outer, disk, extended)
        else:
            reason = _in_the_way(wish, kind, wishes) or _consider(wish, kind, disk, missing)
        if reason is None:
            binds.append(wish)
        else:
            refused.append((wish.target, reason))
    covers = [
        Cover(directory, tuple(disk.entries(directory)), tuple(new)) for directory, new in missing.items()
    ]
    for outer, new in extended.items():
        entries = tuple(entry for entry in disk.entries(outer.source) if entry[0] not in dict(new))
        covers.append(Cover(outer.target, entries, tuple(new), outer.source, outer.read_only))
    covers.sort(key=lambda cover: cover.directory)  # an outer path sorts before paths inside it
    return Plan(tuple(covers), tuple(bind for bind in binds if bind not in extended), tuple(refused))


def _consider_inside(
    wish: Bind, kind: str, outer: Bind, disk: Disk, extended: dict[Bind, list[tuple[str, str]]]
) -> Optional[str]:
    """None if the bind is possible inside an earlier target, which it may extend; else the reason."""
    inside = os.path.relpath(wish.target, outer.target)
    actual = disk.kind(os.path.join(outer.source, inside))
    if actual is not None:
        return None if actual == kind else f"{wish.target} is a {actual}, {wish.source} a {kind}"
    if not outer.read_only:
        return f"{outer.source} has no {inside}"  # a cover would receive later files of the run
    first = inside.split("/")[0]
    if disk.kind(os.path.join(outer.source, first)) is not None:
        return f"{outer.source} has {first}, and not {inside}"
    if outer not in extended and len(disk.entries(outer.source)) > _MOST_ENTRIES:
        return f"{outer.source} has more than {_MOST_ENTRIES} entries"
    extended.setdefault(outer, []).append((inside, kind))
    return None


def _in_the_way(wish: Bind, kind: str, wishes: Sequence[Bind]) -> Optional[str]:
    """Why a file cannot be bound to its target: other targets are below it."""
    below = next((other for other in wishes if other.target.startswith(f"{wish.target}/")), None)
    return f"{wish.source} is a file, and {below.target} lies below it" if below and kind == FILE else None


def _consider(wish: Bind, kind: str, disk: Disk, missing: dict[str, list[tuple[str, str]]]) -> Optional[str]:
    """None if the bind is possible (its cover is added to `missing`), else the reason."""
    actual = disk.kind(wish.target)
    if actual is not None:
        return None if actual == kind else f"{wish.target} is a {actual}, {wish.source} a {kind}"
    parent = os.path.dirname(wish.target)
    while disk.kind(parent) is None:
        parent = os.path.dirname(parent)
    if disk.kind(parent) != DIRECTORY:
        return f"{parent} is not a directory"
    real = disk.real(parent)
    if real not in missing and len(disk.entries(real)) > _MOST_ENTRIES:
        return f"{parent} has more than {_MOST_ENTRIES} entries"
    missing.setdefault(real, []).append((os.path.relpath(wish.target, parent), kind))
    return None


def _entry_kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return LINK
    return DIRECTORY if entry.is_dir() else FILE
