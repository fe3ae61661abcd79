"""The control groups of one worker, and their reports of its memory. Made by the hook `workers`.

A worker's request for processors or memory is also its limit. Control groups of version 1 have a tree for
each controller; version 2 has one for all, in which groups with processes have no groups with limits below
them: a worker's is made beside its runner's. `survey` finds directories for the groups, `choose` is pure.

If memory has no control group, the hook `watch` measures the memory of the worker's processes, twice a
second: see `over_limit`. A group is removed at the end of its node's part; `remove_left` removes those of
lost runners. `OomKills` finds victims of the kernel elsewhere, by the counts of the runner's control group or
of the whole machine: a count that grew since the start of the runner is a sign; a SIGKILL alone is not.
"""

from __future__ import annotations

import glob
import os
from contextlib import nullcontext, suppress
from functools import lru_cache
from typing import Collection, Mapping, NamedTuple, Optional, Sequence

from tarmac.node.kernel import procfs

_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1_000
_PREFIX = "tarmac-"

MEMORY = "memory"
CPU = "cpu"

_CONTROLLERS = "cgroup.controllers"
_PASSED_ON = "cgroup.subtree_control"


class WorkerGroup(NamedTuple):
    """The group of a worker for each controller that limits it."""

    groups: dict[str, tuple[int, str]]

    @property
    def members(self) -> list[str]:
        """The files to which a process writes to join."""
        return sorted({os.path.join(path, "cgroup.procs") for _, path in self.groups.values()})

    def out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the group for lack of memory."""
        return (self._memory({1: "memory.oom_control", 2: "memory.events"}, "oom_kill ") or 0) > 0

    def peak_bytes(self) -> Optional[int]:
        """The peak memory of the worker; None if the kernel does not report it."""
        return self._memory({1: "memory.max_usage_in_bytes", 2: "memory.peak"}, "")

    def remove(self) -> bool:
        """Remove the groups; False while a process is in one."""
        left = [path for path in {path for _, path in self.groups.values()} if not _removed(path)]
        return not left

    def _memory(self, names: dict[int, str], key: str) -> Optional[int]:
        if MEMORY not in self.groups:
            return None
        version, path = self.groups[MEMORY]
        file_path = os.path.join(path, names[version])
        with suppress(OSError, ValueError), open(file_path, encoding="ascii") as file:
            return next((int(line[len(key) :]) for line in file if line.startswith(key)), None)
        return None


def make(name: str, places: Mapping[str, Place], *, cpus: float, memory_bytes: int) -> WorkerGroup:
    """Make the groups that limit a worker, by their controllers; on OSError none is left."""
    made = WorkerGroup({})
    try:
        for controller, place in places.items():
            path = os.path.join(place.directory, f"{_PREFIX}{name}")
            with suppress(FileExistsError):  # made for another controller of this worker
                os.mkdir(path)
            made.groups[controller] = (place.version, path)
            for setting, text in _settings(controller, place, cpus=cpus, memory_bytes=memory_bytes):
                accepting = nullcontext() if setting in _NEEDED else suppress(OSError)
                with accepting, open(os.path.join(path, setting), "w", encoding="ascii") as file:
                    file.write(text)
    except OSError:
        made.remove()
        raise
    return made


_NEEDED = frozenset({"memory.limit_in_bytes", "memory.max", "cpu.cfs_quota_us", "cpu.max"})
"""The files that a limit needs; the others refine it if the kernel has them."""


def _settings(controller: str, place: Place, *, cpus: float, memory_bytes: int) -> list[tuple[str, str]]:
    quota_us = max(round(cpus * _PERIOD_US), _LEAST_QUOTA_US)
    if controller == CPU:
        if place.version == 1:
            return [("cpu.cfs_period_us", str(_PERIOD_US)), ("cpu.cfs_quota_us", str(quota_us))]
        return [("cpu.max", f"{quota_us} {_PERIOD_US}")]
    if place.version == 1:
        return [
            ("memory.limit_in_bytes", str(memory_bytes)),
            ("memory.memsw.limit_in_bytes", str(memory_bytes)),
        ]
    return [("memory.max", str(memory_bytes)), ("memory.swap.max", "0"), ("memory.oom.group", "1")]


def over_limit(leader: int, limit_bytes: int, *, but: Collection[int] = ()) -> Optional[int]:
    """The memory of a worker's processes, if it exceeds the limit.

    Shared pages count once, but this slow count is made only if the fast one exceeds the limit.
    """
    own = procfs.status(leader)
    if own is None:
        return None
    processes = [own.process, *procfs.descendants(leader, but=but)]
    if procfs.resident_bytes(processes) <= limit_bytes:
        return None
    total_bytes = procfs.proportional_bytes(processes)
    return total_bytes if total_bytes > limit_bytes else None


def remove_left(attempt_id: str) -> None:
    """Remove the groups of an attempt that a lost runner left."""
    for directory in {place.directory for place in survey()}:
        for path in glob.glob(os.path.join(glob.escape(directory), f"{_PREFIX}{glob.escape(attempt_id)}-*")):
            _removed(path)


def _removed(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class OomKills:
    """Detects processes ended by the out-of-memory killer since this object was made."""

    def __init__(self, *, proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> None:
        self._counter: Optional[str] = None
        self._before = 0
        for path in _counters(proc, groups):
            count = _count(path)
            if count is not None:
                self._counter, self._before = path, count
                break

    def grew(self) -> bool:
        """Whether there was a victim since."""
        return self._counter is not None and (_count(self._counter) or 0) > self._before


@lru_cache(maxsize=1)
def _counters(proc: str, groups: str) -> tuple[str, ...]:
    """The files that may count victims, for control groups of either version; a runner stays in its own."""
    found = []
    for line in procfs.lines(f"{proc}/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            found.append(os.path.join(groups, group.lstrip("/"), "memory.events"))
        elif "memory" in controllers.split(","):
            found.append(os.path.join(groups, "memory", group.lstrip("/"), "memory.oom_control"))
    return (*found, f"{proc}/vmstat")


def _count(path: str) -> Optional[int]:
    with suppress(OSError):
        for line in procfs.content_again(path).splitlines():
            name, _, number = line.partition(b" ")
            if name == b"oom_kill":
                return int(number)
    return None


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


def survey(*, groups: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> list[Place]:
    """The places where this process could make groups, best first."""
    found: list[Place] = []
    for line in procfs.lines(groups):
        _, names, path = line.split(":", 2)
        if names == "":
            found += _unified(root, path)
            continue
        for name in {MEMORY, CPU} & set(names.split(",")):
            # This process's group; the top if a container shows only a part of the tree.
            for place in (os.path.join(root, name, path.lstrip("/")).rstrip("/"), os.path.join(root, name)):
                if os.path.isdir(place):
                    found.append(Place(1, place, frozenset({name}), os.access(place, os.W_OK)))
                    break
    return found


def _unified(root: str, path: str) -> list[Place]:
    """The place beside this process's group of version 2, or at the top."""
    tree = root if os.path.exists(os.path.join(root, _CONTROLLERS)) else os.path.join(root, "unified")
    beside = os.path.join(tree, os.path.dirname(path).lstrip("/")).rstrip("/")
    found = []
    for directory in dict.fromkeys((beside, tree)):
        controllers = frozenset(" ".join(procfs.lines(os.path.join(directory, _PASSED_ON))).split())
        if controllers and os.path.isdir(directory):
            found.append(Place(2, directory, controllers, os.access(directory, os.W_OK)))
    return found
