"""Finds directories for workers' control groups, and chooses among them: facts, and a pure function.

Called by the hook `workers`, through `workergroup`. A worker's request for processors or memory is also its
limit. Control groups of version 1 have a tree for each controller; version 2 has one for all, in which groups
with processes have no groups with limits below them: a worker's is made beside its runner's.
"""

from __future__ import annotations

import os
from typing import Collection, NamedTuple, Optional, Sequence

from tarmac.node.kernel.procfs import lines

MEMORY = "memory"
CPU = "cpu"

_PROC_GROUPS = "/proc/self/cgroup"
_ROOT = "/sys/fs/cgroup"
_UNIFIED = "unified"
_CONTROLLERS = "cgroup.controllers"
_PASSED_ON = "cgroup.subtree_control"


class Place(NamedTuple):
    """A directory for new groups, with the controllers that it can limit."""

    version: int
    directory: str
    controllers: frozenset[str]
    writable: bool


class Choice(NamedTuple):
    """The place of each controller's group, and the reasons for controllers without one."""

    places: dict[str, Place]
    why_not: dict[str, str]


def choose(controllers: Collection[str], places: Sequence[Place]) -> Choice:
    """The place for each wanted controller, preferring the place with most of them."""
    chosen: dict[str, Place] = {}
    usable = [place for place in places if place.writable]
    for place in sorted(usable, key=lambda item: -len(item.controllers & set(controllers))):
        for controller in controllers:
            if controller in place.controllers and _fits(place, chosen):
                chosen.setdefault(controller, place)
    return Choice(chosen, {name: _why_not(name, places) for name in controllers if name not in chosen})


def _fits(place: Place, chosen: dict[str, Place]) -> bool:
    """Whether the place fits the others: a process is in one group of version 2 at a time."""
    return place.version == 1 or all(other.version == 1 or other == place for other in chosen.values())


def _why_not(controller: str, places: Sequence[Place]) -> str:
    if not places:
        return "this machine has no control groups"
    if any(controller in place.controllers for place in places):
        return "no control groups may be made here"
    return f"control groups here do not limit {controller}"


def survey(*, groups: str = _PROC_GROUPS, root: str = _ROOT) -> list[Place]:
    """The places where this process could make groups, best first."""
    found: list[Place] = []
    for line in lines(groups):
        _, names, path = line.split(":", 2)
        if names == "":
            found += _unified(root, path)
            continue
        for name in {MEMORY, CPU} & set(names.split(",")):
            place = _first_directory(os.path.join(root, name), path)
            if place is not None:
                found.append(Place(1, place, frozenset({name}), os.access(place, os.W_OK)))
    return found


def _unified(root: str, path: str) -> list[Place]:
    """The place beside this process's group of version 2, or at the top."""
    tree = root if os.path.exists(os.path.join(root, _CONTROLLERS)) else os.path.join(root, _UNIFIED)
    beside = os.path.join(tree, os.path.dirname(path).lstrip("/")).rstrip("/")
    found = []
    for directory in dict.fromkeys((beside, tree)):
        controllers = frozenset(" ".join(lines(os.path.join(directory, _PASSED_ON))).split())
        if controllers and os.path.isdir(directory):
            found.append(Place(2, directory, controllers, os.access(directory, os.W_OK)))
    return found


def _first_directory(tree: str, path: str) -> Optional[str]:
    """This process's group in a tree; the top if a container shows only a part of the tree."""
    for directory in (os.path.join(tree, path.lstrip("/")).rstrip("/"), tree):
        if os.path.isdir(directory):
            return directory
    return None
