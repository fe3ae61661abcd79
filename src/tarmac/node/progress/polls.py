"""Processes that call `should_pause()`: they leave by themselves, so the signal of a pause is withheld from
them.

Such a process holds a shared lock on the poll file of its worker (`protocol.POLL_VARIABLE`) for as long as it
lives, and writes into the file once it has seen a pause. No pid has to be known: the lock ends with the
process, whatever launcher or namespace lies in between. `sdk` writes the file; the hook `watch` of every node
of the attempt reads it: where rank 0 polls, the other ranks follow by a collective operation.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from typing import Iterable, Iterator, NamedTuple, Optional

from tarmac.node.attempt import protocol

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Polling(NamedTuple):
    """Whether a process that polls lives now, and the roles that are left to leave by themselves."""

    lives: bool
    roles: frozenset[str]


def hold(path: str) -> Optional[int]:
    """Say that this process polls, until it ends; None where that cannot be said."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError:
        return None
    with suppress(OSError):  # a disk without locks: that the file is there must do
        fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def note_heard(handle: int) -> None:
    """Say that this process has heard of the pause: its peers are left to follow it, also once it is gone."""
    with suppress(OSError):
        os.write(handle, b"heard\n")


def look(nodes: Iterable[str]) -> Polling:
    """What the poll files below these directories of nodes say."""
    lives, roles = False, set()
    for directory in nodes:
        for role, path in _poll_files(directory):
            poll, heard = _read(path)
            lives = lives or poll
            if poll or heard:
                roles.add(role)
    return Polling(lives, frozenset(roles))


def _poll_files(directory: str) -> Iterator[tuple[str, str]]:
    """The role and the path of each."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        if name.startswith(protocol.POLL_PREFIX):
            role = name[len(protocol.POLL_PREFIX) :].rsplit(".", 2)[0]
            yield role, os.path.join(directory, name)


def _read(path: str) -> tuple[bool, bool]:
    """Whether somebody holds the file, and whether it was written to; a run may have put anything there."""
    try:
        handle = os.open(path, _OPEN_FLAGS)
    except OSError:
        return False, False
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return False, False
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held; or a disk without locks, where whoever asked once is believed to live
        return True, found.st_size > 0
    else:
        return False, found.st_size > 0
    finally:
        os.close(handle)
