"""The directory of an attempt's secret files on a node: in memory, for its user alone, until the end.

The runner makes the files; an engine removes those of a lost runner. The name of the directory is derived
from the token of the attempt, so that only processes that know the attempt can find it or create it.
"""

from __future__ import annotations

import os
import stat
from typing import Tuple

from tarmac.node.files import untrusted
from tarmac.node.files.codestore import digest
from tarmac.node.kernel import syscalls

MEMORY = "/dev/shm"
"""Linux's directory for files in memory."""

_ON_DISK = "secrets"


def make(token: str, node: str, node_directory: str) -> Tuple[str, bool]:
    """Make an empty directory, in memory or else on the disk; returns its path and whether it is in memory.

    Raises OSError if neither can be made.
    """
    remove(token, node, node_directory)
    place = _in_memory(token, node)
    try:
        _make_private(place)
    except OSError:
        place = os.path.join(node_directory, _ON_DISK)
        _make_private(place)
        return place, False
    return place, True


def write(place: str, name: str, text: str) -> str:
    """Write a file below the directory that only its user can read; returns its path."""
    path = os.path.join(place, name)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    untrusted.write_new(path, text.encode(), mode=0o600)
    return path


def remove(token: str, node: str, node_directory: str) -> None:
    """Remove the directory with its content, if it exists."""
    for place in (_in_memory(token, node), os.path.join(node_directory, _ON_DISK)):
        untrusted.discard_tree(place)


def _in_memory(token: str, node: str) -> str:
    name = digest(f"tarmac secrets\0{token}\0{node}")[:32]
    return os.path.join(MEMORY, f"tarmac-{name}")


def _make_private(place: str) -> None:
    os.mkdir(place, 0o700)
    found = os.lstat(place)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != syscalls.file_user():
        raise OSError(f"{place} is not ours")
