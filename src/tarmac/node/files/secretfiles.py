"""Where the files of an attempt's secrets lie on a node: in memory, for its user alone, until it ends.

The runner makes them; an engine clears away what a lost runner left. The name of the directory follows from
the token of the attempt, so that whoever knows the attempt finds it and nobody else can take its place.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Tuple

from tarmac.node.files import untrusted
from tarmac.node.files.digests import digest

MEMORY = "/dev/shm"
"""Where Linux keeps files that are on no disk."""

_ON_DISK = "secrets"


def make(token: str, node: str, node_directory: str) -> Tuple[str, bool]:
    """The directory, made empty, and whether it is in memory; where there is none, it is on the node's disk.

    Raises OSError where neither can be made.
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
    """A file below it that only its user can read; its path."""
    path = os.path.join(place, name)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def remove(token: str, node: str, node_directory: str) -> None:
    """Remove it with all it holds; nothing happens where there is none."""
    for place in (_in_memory(token, node), os.path.join(node_directory, _ON_DISK)):
        with suppress(OSError):
            untrusted.remove_tree(place)


def _in_memory(token: str, node: str) -> str:
    name = digest(f"tarmac secrets\0{token}\0{node}")[:32]
    return os.path.join(MEMORY, f"tarmac-{name}")


def _make_private(place: str) -> None:
    os.mkdir(place, 0o700)
    found = os.lstat(place)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise OSError(f"{place} is not ours")
