"""Facts about a machine: its programs, ports, processors, memory, disk and clock; GPUs: see `gpus`.

Called by `operations` and `agent`.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
import time
from typing import Any, Optional, Sequence

from tarmac.node.kernel import procfs, sockets

CONNECT_S = 10.0

FIRST_PORT, LAST_PORT = 20_000, 32_767
MOST_TRIES = 1_000


def facts(programs: Sequence[str]) -> dict[str, Any]:
    """The paths of the programs (None: missing), and the address of this machine.

    The address is the target of the incoming connection; None if it is unknown, as on a loopback.
    """
    came_to = os.environ.get("SSH_CONNECTION", "").split()
    return {
        "programs": {name: shutil.which(name) for name in programs},
        "address": came_to[2] if len(came_to) == 4 and not came_to[2].startswith("127.") else None,
    }


def port_problem(address: str, port: int) -> Optional[str]:
    """The reason why a program cannot listen at this port; None if it can. Port 0 tries the address alone."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return f"{address} is not an address of this machine"
            if error.errno == errno.EADDRINUSE:
                return f"port {port} is taken"
            return error.strerror or str(error)
    return None


def free_ports(address: str, count: int) -> list[int]:
    """`count` free ports at an address, above those that Ray gives to its workers.

    Raises OSError if there are not enough.
    """
    found: set[int] = set()
    for _ in range(MOST_TRIES):
        port = FIRST_PORT + int.from_bytes(os.urandom(4), "big") % (LAST_PORT - FIRST_PORT)
        if port not in found and sockets.is_free_port(port, address):
            found.add(port)
            if len(found) == count:
                return sorted(found)
    raise OSError(errno.EADDRINUSE, f"no port is free at {address} from {FIRST_PORT} to {LAST_PORT}")


def connect_problem(address: str, port: int) -> Optional[str]:
    """The reason why no process answers at an address; None if one does."""
    try:
        socket.create_connection((address, port), CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


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
    found = (line.split() for line in procfs.lines("/proc/meminfo") if line.startswith("MemAvailable:"))
    return next((int(words[1]) * 1024 for words in found), 0)
