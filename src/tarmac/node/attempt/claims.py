"""The claim: the owner of a node's part of an attempt. Called by the runner and by engines.

The process that creates the file owns the part permanently: an attempt can start at most once on a node. The
claim is written under another name and then linked into place, so no reader sees an incomplete claim.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple, Optional

from tarmac.node.attempt.paths import NodePaths, make_directory
from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs
from tarmac.node.kernel.procfs import Process


class Claim(NamedTuple):
    """The claiming process. `fenced`: no runner may start the part, and there is no process.

    `name` is the process's name while it serves this claim: afterwards it may serve another.
    """

    token: str
    process: Optional[Process]
    boot_id: str
    fenced: bool
    name: str = ""


def take(node: NodePaths, token: str, *, pid: int, name: str = "") -> bool:
    """Claim a node's part for this process, whose pid the machine knows; False if it is already taken."""
    own = procfs.status(os.getpid())
    ticks = own.process.start_ticks if own else 0
    return _create(
        node,
        {"token": token, "pid": pid, "start_ticks": ticks, "boot_id": procfs.boot_id(), "name": name},
    )


def fence(node: NodePaths) -> bool:
    """Prevent any runner from starting this part; False if it is already claimed or fenced."""
    return _create(node, {"fenced": True})


def read(node: NodePaths) -> Optional[Claim]:
    """The claim, or None if there is none yet. Raises OSError, ValueError or KeyError for a damaged one."""
    try:
        record = untrusted.read_object(node.claim)
    except FileNotFoundError:
        return None
    if record.get("fenced"):
        return Claim(token="", process=None, boot_id="", fenced=True)
    pid, ticks = record["pid"], record["start_ticks"]
    if not (type(pid) is int and type(ticks) is int and pid > 0):
        raise ValueError("it names no process")
    return Claim(
        token=str(record["token"]),
        process=Process(pid, ticks),
        boot_id=str(record["boot_id"]),
        fenced=False,
        name=str(record.get("name", "")),
    )


def _create(node: NodePaths, content: dict[str, object]) -> bool:
    make_directory(node.directory)
    # A random name: a pid is local to one namespace of one machine, and several may share this disk.
    draft = f"{node.claim}.{os.urandom(6).hex()}"
    untrusted.write_new(draft, json.dumps(content).encode())
    try:
        os.link(draft, node.claim)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True
