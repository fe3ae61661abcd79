"""Finds processes with a file open for writing, in /proc. Called by `torn`, and by the artifacts' sidecar.

Processes of another user are invisible.
"""

from __future__ import annotations

import os
import stat
from typing import Collection, Dict, Iterable, Iterator, Mapping, Set, Tuple

FileId = Tuple[int, int]
"""The identity of a file on a disk: device and inode."""


def open_for_writing(
    pids: Iterable[int], files: Collection[FileId], proc: str = "/proc"
) -> Dict[FileId, Dict[int, bool]]:
    """The files among these that are open for writing, and their writers (pid: only to append)."""
    found: Dict[FileId, Dict[int, bool]] = {}
    if not files:
        return found
    for pid in pids:
        for file_id, appends in _opened(f"{proc}/{pid}", files):
            writers = found.setdefault(file_id, {})
            writers[pid] = appends and writers.get(pid, True)
    return found


def mapped_for_writing(pids: Iterable[int], files: Mapping[FileId, str], proc: str = "/proc") -> Set[FileId]:
    """The files among these (identity: name) that a process maps for writing.

    Such a file may be closed. For some file systems the device here differs from that of stat(2).
    """
    inodes = {file_id[1]: file_id for file_id in files}
    found: Set[FileId] = set()
    for pid in pids:
        for device, inode, path in _mapped(f"{proc}/{pid}/maps"):
            file_id = inodes.get(inode)
            if file_id and (
                file_id[0] == device or os.path.basename(path) == os.path.basename(files[file_id])
            ):
                found.add(file_id)
    return found


def _opened(process: str, files: Collection[FileId]) -> Iterator[Tuple[FileId, bool]]:
    try:
        handles = os.listdir(f"{process}/fd")
    except OSError:
        return
    for handle in handles:
        try:
            found = os.stat(f"{process}/fd/{handle}")
            file_id = (found.st_dev, found.st_ino)
            if file_id not in files or not stat.S_ISREG(found.st_mode):
                continue
            flags = _flags(f"{process}/fdinfo/{handle}")
            if flags & os.O_ACCMODE != os.O_RDONLY:
                yield file_id, bool(flags & os.O_APPEND)
        except OSError:
            continue  # closed since


def _flags(information: str) -> int:
    """The flags with which a file was opened."""
    with open(information, "rb") as file:
        return int(next(line for line in file if line.startswith(b"flags:")).split()[1], 8)


def _mapped(maps: str) -> Iterator[Tuple[int, int, str]]:
    """Device, inode and path of a process's shared writable mappings."""
    try:
        with open(maps, "rb") as file:
            for line in file:
                fields = line.split(None, 5)
                if len(fields) == 6 and fields[1][1:2] == b"w" and fields[1][3:4] == b"s":
                    major, minor = fields[3].split(b":")
                    device = os.makedev(int(major, 16), int(minor, 16))
                    yield device, int(fields[4]), os.fsdecode(fields[5].rstrip(b"\n"))
    except OSError:
        return
