"""Which mounts make literal paths true: a pure function of the wishes and of what is on the disk.

Called by `mounts`, which carries the plan out. Nothing is ever created on the real disk: where a target
does not exist, its nearest existing parent is covered by a small file system in memory that shows everything
the parent had, and the target as well. Where that parent is the root of the disk, the attempt gets a root of
its own, made in the same way.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Protocol, Sequence

DIRECTORY = "directory"
FILE = "file"
LINK = "link"
ROOT = "/"

_MOST_ENTRIES = 500
"""A fuller directory is not covered: showing all of it again would cost every attempt too much."""


class Bind(NamedTuple):
    """`source` is to be seen at `target`; with `read_only`, nobody changes it through there."""

    source: str
    target: str
    read_only: bool = False


class Cover(NamedTuple):
    """A directory to cover: what it has, to be shown again, and what is new in it (relative path -> kind)."""

    directory: str
    entries: tuple[tuple[str, str], ...]
    new: tuple[tuple[str, str], ...]


class Plan(NamedTuple):
    """Covers first (the root, outer ones before inner ones), then binds. `refused` are (target, reason)."""

    covers: tuple[Cover, ...]
    binds: tuple[Bind, ...]
    refused: tuple[tuple[str, str], ...]


class Tree(Protocol):
    """What the plan needs to know of a disk."""

    def kind(self, path: str) -> Optional[str]:
        """DIRECTORY or FILE, links followed; None when there is nothing."""
        ...

    def entries(self, path: str) -> Sequence[tuple[str, str]]:
        """(name, kind) of what is in a directory, links not followed."""
        ...

    def real(self, path: str) -> str:
        """The path without symbolic links."""
        ...


def plan_mounts(wishes: Sequence[Bind], tree: Tree) -> Plan:
    """The mounts that make every wish true that can be; later wishes may build on earlier targets."""
    missing: dict[str, list[tuple[str, str]]] = {}
    binds: list[Bind] = []
    refused: list[tuple[str, str]] = []
    for wish in wishes:
        reason = _consider(wish, tree, missing)
        if reason is None:
            binds.append(wish)
        else:
            refused.append((wish.target, reason))
    covers = tuple(
        Cover(directory, tuple(tree.entries(directory)), tuple(missing[directory]))
        for directory in sorted(missing)  # an outer path sorts before those inside it
    )
    return Plan(covers, tuple(binds), tuple(refused))


def _consider(wish: Bind, tree: Tree, missing: dict[str, list[tuple[str, str]]]) -> Optional[str]:
    """None when the wish can come true (its cover is noted in `missing`), else the reason why not."""
    kind = tree.kind(wish.source)
    if kind is None:
        return f"{wish.source} does not exist"
    there = tree.kind(wish.target)
    if there is not None:
        return None if there == kind else f"{wish.target} is a {there}, {wish.source} a {kind}"
    parent = os.path.dirname(wish.target)
    while tree.kind(parent) is None:
        parent = os.path.dirname(parent)
    if tree.kind(parent) != DIRECTORY:
        return f"{parent} is not a directory"
    real = tree.real(parent)
    if real not in missing and len(tree.entries(real)) > _MOST_ENTRIES:
        return f"{parent} has more than {_MOST_ENTRIES} entries"
    missing.setdefault(real, []).append((os.path.relpath(wish.target, parent), kind))
    return None
