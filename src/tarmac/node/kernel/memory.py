"""Signs that the kernel ended a process for lack of memory. Called by the runner after a foreign SIGKILL.

The kernel counts its victims per control group, and for the whole machine: a count that grew since the start
of the runner is a sign; a SIGKILL alone is not.
"""

from __future__ import annotations

import os
from typing import Optional

from tarmac.node.kernel.kernelfiles import lines


class OomKills:
    """Detects processes ended by the out-of-memory killer since this object was made."""

    def __init__(self, *, proc: str = "/proc", groups: str = "/sys/fs/cgroup") -> None:
        self._counter: Optional[str] = None
        self._before = 0
        for path in (*_group_counters(f"{proc}/self/cgroup", groups), f"{proc}/vmstat"):
            count = _count(path)
            if count is not None:
                self._counter, self._before = path, count
                break

    def grew(self) -> bool:
        """Whether there was a victim since."""
        return self._now() > self._before

    def _now(self) -> int:
        return (_count(self._counter) or 0) if self._counter else 0


def _group_counters(path: str, groups: str) -> list[str]:
    """The files that may count victims, for control groups of either version."""
    found = []
    for line in lines(path):
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            found.append(os.path.join(groups, group.lstrip("/"), "memory.events"))
        elif "memory" in controllers.split(","):
            found.append(os.path.join(groups, "memory", group.lstrip("/"), "memory.oom_control"))
    return found


def _count(path: str) -> Optional[int]:
    for line in lines(path):
        name, _, number = line.partition(" ")
        if name == "oom_kill":
            return int(number)
    return None
