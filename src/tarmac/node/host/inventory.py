"""Facts about a machine: processors, memory, disk, clock. Called by `agent`; GPUs: see `gpus`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tarmac.node.kernel import kernelfiles


def survey(home: str) -> dict[str, Any]:
    """The current facts about this machine; `home` is the directory whose disk counts."""
    return {
        "name": os.uname().nodename,
        "python": sys.version.split()[0],
        "cpus": float(len(os.sched_getaffinity(0))),
        **health(home),
    }


def health(home: str) -> dict[str, Any]:
    """Possible problems: memory, space on the disk, the clock."""
    disk = os.statvfs(home)
    return {
        "at": time.time(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "free_memory_bytes": _available_bytes(),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "free_files": disk.f_favail if disk.f_files else None,
    }


def _available_bytes() -> int:
    found = (line.split() for line in kernelfiles.lines("/proc/meminfo") if line.startswith("MemAvailable:"))
    return next((int(words[1]) * 1024 for words in found), 0)
