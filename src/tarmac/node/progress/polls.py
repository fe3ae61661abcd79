"""Processes that call `should_pause()`: they leave by themselves, so they get no signal for a pause.

Such a process holds a shared lock on the poll file of its worker (`protocol.POLL_VARIABLE`) until it ends,
and writes into the file after it has seen a pause. No pid is needed: the lock ends with the process, through
any launcher or namespace. `sdk` writes the file; the hook `watch` of every node of the attempt reads it: if
rank 0 polls, the other ranks follow by a collective operation.
"""

from __future__ import annotations

import fcntl
import glob
import os
import stat
from contextlib import suppress
from functools import lru_cache
from typing import Iterable, NamedTuple, Optional

from tarmac.node.attempt import protocol

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Polling(NamedTuple):
    """Whether a polling process is alive, and the roles that leave by themselves."""

    lives: bool
    roles: frozenset[str]


@lru_cache(maxsize=1)
def hold(path: Optional[str]) -> Optional[int]:
    """Mark this process as polling until it ends; None if that is impossible. Forked children share it."""
    if path is None:
        return None
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError:
        return None
    with suppress(OSError):  # a disk without locks: the existence of the file must suffice
        fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


@lru_cache(maxsize=1)
def note_heard(handle: Optional[int]) -> None:
    """Record that this process knows of the pause, once: its peers follow it, even after its end."""
    if handle is not None:
        with suppress(OSError):
            os.write(handle, b"heard\n")


def look(nodes: Iterable[str]) -> Polling:
    """Read the poll files below these directories of nodes."""
    lives, roles = False, set()
    for directory in nodes:
        for path in glob.glob(os.path.join(glob.escape(directory), f"{protocol.POLL_PREFIX}*")):
            poll, heard = _read(path)
            lives = lives or poll
            if poll or heard:
                roles.add(os.path.basename(path)[len(protocol.POLL_PREFIX) :].rsplit(".", 2)[0])
    return Polling(lives, frozenset(roles))


def _read(path: str) -> tuple[bool, bool]:
    """Whether a process holds the file, and whether it has content; a run may have replaced the file."""
    try:
        handle = os.open(path, _OPEN_FLAGS)
    except OSError:
        return False, False
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return False, False
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held; or a disk without locks, where a process that once polled counts as alive
        return True, found.st_size > 0
    else:
        return False, found.st_size > 0
    finally:
        os.close(handle)
