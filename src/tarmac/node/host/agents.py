"""The agents that serve a home on this machine: each registers itself, and ends with its cluster.

Called by `agent` and `operations`. Several machines may share the directory: an entry names the boot.
"""

from __future__ import annotations

import glob
import json
import os
import signal
from contextlib import suppress

from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs
from tarmac.node.kernel.procfs import Process


def note(home: str, address: str) -> None:
    """Register this process as the agent of a home at an address, if the disk allows it."""
    status = procfs.status(os.getpid())
    if status is None:
        return
    record = {"pid": status.process.pid, "start_ticks": status.process.start_ticks}
    with suppress(OSError):
        os.makedirs(home, mode=0o700, exist_ok=True)
        content = json.dumps({**record, "boot_id": procfs.boot_id()}).encode()
        untrusted.replace(os.path.join(home, f"agent-{address}"), content, mode=0o600)


def end_all(home: str) -> int:
    """End the agents of a home on this machine; returns their number. Their children continue."""
    ended = 0
    for path in glob.iglob(os.path.join(glob.escape(home), "agent-*")):
        try:
            found = untrusted.read_object(path)
            process = Process(int(found["pid"]), int(found["start_ticks"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if found.get("boot_id") != procfs.boot_id():
            continue
        status = procfs.status(process.pid)
        if status is not None and not status.unreaped and status.process == process:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)  # it has no state
                ended += 1
        with suppress(OSError):
            os.unlink(path)
    return ended
