"""Where control groups for workers can be made, and which to use: facts, and a pure choice among them.

Called by the hook `workers`, through `workergroup`. A worker that asked for processors or memory gets them as
limits. Control groups of version 1 have a tree for each controller; of version 2 one for all, in which groups
that hold processes have no groups with limits below them: a worker's is made beside its runner's.
"""

from __future__ import annotations

import os
from typing import Collection, NamedTuple, Optional, Sequence

from tarmac.node.kernel.kernelfiles import lines

MEMORY = "memory"
CPU = "cpu"

_PROC_GROUPS = "/proc/self/cgroup"
_ROOT = "/sys/fs/cgroup"
_UNIFIED = "unified"
_CONTROLLERS = "cgroup.controllers"
_PASSED_ON = "cgroup.subtree_control"


class Place(NamedTuple):
    """A directory in which groups can be made, with what they can limit there."""

    version: int
    directory: str
    controllers: frozenset[str]
    writable: bool


class Choice(NamedTuple):
    """Where the group for each controller is made, and for the others why there is none."""

    places: dict[str, Place]
    why_not: dict[str, str]


def choose(controllers: Collection[str], places: Sequence[Place]) -> Choice:
    """The place for each wanted controller: that with most of them first, so that one may do for all."""
    chosen: dict[str, Place] = {}
    usable = [place for place in places if place.writable]
    for place in sorted(usable, key=lambda item: -len(item.controllers & set(controllers))):
        for controller in controllers:
            if controller in place.controllers and _fits(place, chosen):
                chosen.setdefault(controller, place)
    return Choice(chosen, {name: _why_not(name, places) for name in controllers if name not in chosen})


def _fits(place: Place, chosen: dict[str, Place]) -> bool:
    """A process is in one group of version 2 at a time."""
    return place.version == 1 or all(other.version == 1 or other == place for other in chosen.values())


def _why_not(controller: str, places: Sequence[Place]) -> str:
    if not places:
        return "this machine has no control groups"
    if any(controller in place.controllers for place in places):
        return "no control groups may be made here"
    return f"control groups here do not limit {controller}"


def survey(*, groups: str = _PROC_GROUPS, root: str = _ROOT) -> list[Place]:
    """Where this process could make groups, best first."""
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
    """Beside our own group of version 2, or at the top."""
    tree = root if os.path.exists(os.path.join(root, _CONTROLLERS)) else os.path.join(root, _UNIFIED)
    beside = os.path.join(tree, os.path.dirname(path).lstrip("/")).rstrip("/")
    found = []
    for directory in dict.fromkeys((beside, tree)):
        controllers = frozenset(" ".join(lines(os.path.join(directory, _PASSED_ON))).split())
        if controllers and os.path.isdir(directory):
            found.append(Place(2, directory, controllers, os.access(directory, os.W_OK)))
    return found


def _first_directory(tree: str, path: str) -> Optional[str]:
    """Our own group in a tree; the top where a container shows us only a part of it."""
    for directory in (os.path.join(tree, path.lstrip("/")).rstrip("/"), tree):
        if os.path.isdir(directory):
            return directory
    return None
