"""What a machine is and how it does: processors, memory, disk, GPUs, clock. Called by `agent`.

Where the library of NVIDIA's driver cannot be had, its program is asked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from tarmac.node.kernel import kernelfiles

DRIVER_SIGNS = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
"""Where there is none of these there is no GPU to ask for."""

ASK_S = 20.0


def survey(home: str) -> dict[str, Any]:
    """This machine as it is now; `home` is the directory whose disk counts."""
    return {
        "name": os.uname().nodename,
        "python": sys.version.split()[0],
        "at": time.time(),
        "cpus": float(len(os.sched_getaffinity(0))),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "products": products(),
        **health(home),
    }


def health(home: str) -> dict[str, Any]:
    """What may go wrong with it: free memory, room on the disk, what is said of its GPUs."""
    disk = os.statvfs(home)
    return {
        "free_memory_bytes": _available_bytes(),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "free_files": disk.f_favail if disk.f_files else None,
    }


def products() -> list[str]:
    """The product name of every GPU, in the order of their numbers; empty without a driver."""
    if not any(os.path.exists(sign) for sign in DRIVER_SIGNS):
        return []
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if found.returncode != 0:
        return []
    lines = (line.partition(",") for line in found.stdout.decode(errors="replace").splitlines())
    named = sorted((int(number), name.strip()) for number, _, name in lines if number.strip().isdigit())
    return [name for _, name in named]


def _available_bytes() -> int:
    found = (line.split() for line in kernelfiles.lines("/proc/meminfo") if line.startswith("MemAvailable:"))
    return next((int(words[1]) * 1024 for words in found), 0)
