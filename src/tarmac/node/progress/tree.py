"""Walks a directory tree of checkpoints within bounds. Called by `treewatch` and `treetimes`.

A tree may contain a whole data set: files beyond the bounds are ignored, and the result is then incomplete.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Iterator, NamedTuple, Optional

from tarmac.node.attempt import protocol

MOST_DIRECTORIES = 1_000
MOST_NAMES = 50_000


class Glimpse(NamedTuple):
    """The events in a tree since the last call.

    `shown_at`: something became visible complete (renamed into place, or linked). `closed_at`: a file was
    closed after writing. `read_at`: something that existed at the start was read.
    """

    shown_at: Optional[float] = None
    closed_at: Optional[float] = None
    read_at: Optional[float] = None


OPENED, CLOSED, SHOWN, FOUND, NAMED = "opened", "closed", "shown", "found", "named"


class Change(NamedTuple):
    """One change in a tree: a file was opened (or made), closed after writing, or appeared complete.

    FOUND: it existed when the watch on its directory began; it may have been closed before, or may be closed
    again. NAMED: a name was made, moved or removed, which only a living process does.
    """

    what: str
    path: str


def walk(
    root: str, *, most_directories: int = MOST_DIRECTORIES, most_names: int = MOST_NAMES
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Every directory of the tree with its entries, outer ones first, without unfinished ones."""
    waiting, directories, names = deque([root]), 1, 0
    while waiting and names < most_names:
        directory = waiting.popleft()
        try:
            with os.scandir(directory) as found:
                entries = [entry for entry in found if not unfinished(entry.name)]
        except OSError:
            continue  # removed since, or not readable
        names += len(entries)
        yield directory, entries
        for entry in entries:
            if directories < most_directories and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                directories += 1


def unfinished(name: str) -> bool:
    """Whether the SDK is preparing or removing this entry, or it contains torn files."""
    return name.startswith(protocol.UNFINISHED) or name == protocol.TORN
