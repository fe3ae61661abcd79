"""The control groups of one worker, and what they say of its memory. Made by the hook `workers`.

Where memory has no group, the hook `watch` looks at what the worker's processes hold, twice a second: see
`over_limit`. A group is removed when its node's part has ended; `remove_left` finds those of lost runners.
"""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from typing import Collection, NamedTuple, Optional

from tarmac.node.kernel import consumption, procfs
from tarmac.node.kernel.limits import CPU, MEMORY, Choice, Place, survey

_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1_000
_PREFIX = "tarmac-"


class WorkerGroup(NamedTuple):
    """The group of a worker for each controller that limits it."""

    groups: dict[str, tuple[int, str]]

    @property
    def members(self) -> list[str]:
        """The files to which a process writes to join."""
        return sorted({os.path.join(path, "cgroup.procs") for _, path in self.groups.values()})

    def out_of_memory(self) -> bool:
        """Whether the kernel ended one of its processes for want of memory."""
        return (self._memory({1: "memory.oom_control", 2: "memory.events"}, "oom_kill ") or 0) > 0

    def peak_bytes(self) -> Optional[int]:
        """The most memory it used, where the kernel says so."""
        return self._memory({1: "memory.max_usage_in_bytes", 2: "memory.peak"}, "")

    def remove(self) -> bool:
        """Take the groups away; False while somebody is in one."""
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


def make(name: str, choice: Choice, *, cpus: float, memory_bytes: int) -> WorkerGroup:
    """The groups that limit a worker; raises OSError, having made none."""
    made = WorkerGroup({})
    try:
        for controller, place in choice.places.items():
            path = os.path.join(place.directory, f"{_PREFIX}{name}")
            with suppress(FileExistsError):  # of another controller of this worker
                os.mkdir(path)
            made.groups[controller] = (place.version, path)
            for file, text in _settings(controller, place, cpus=cpus, memory_bytes=memory_bytes):
                _write(os.path.join(path, file), text, needed=file in _NEEDED)
    except OSError:
        made.remove()
        raise
    return made


_NEEDED = frozenset({"memory.limit_in_bytes", "memory.max", "cpu.cfs_quota_us", "cpu.max"})
"""What a limit consists of; the rest makes it sharper where the kernel knows of it."""


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
    """How much the processes of a worker hold, if that is more than its limit.

    Pages that several of them share are counted once, but only where counting them all gives too much:
    that is dear.
    """
    own = procfs.status(leader)
    if own is None:
        return None
    processes = [own.process, *procfs.descendants(leader, but=but)]
    if consumption.resident_bytes(processes) <= limit_bytes:
        return None
    total_bytes = consumption.proportional_bytes(processes)
    return total_bytes if total_bytes > limit_bytes else None


def remove_left(attempt_id: str) -> None:
    """Take away the groups that a lost runner left of an attempt."""
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


def _write(path: str, text: str, *, needed: bool) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        if needed:
            raise
