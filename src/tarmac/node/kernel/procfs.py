"""Processes as /proc shows them: their states, use and open files; and small files of the kernel.

Called by most of the runner, and by the sidecar of artifacts. Processes of other users hide their transfers
and files.

Read without Python's file objects, which cost more than the reading: a runner reads a dozen of them.
"""

from __future__ import annotations

import os
import select
import stat
import time
from contextlib import suppress
from functools import lru_cache
from typing import Collection, Iterable, Iterator, Mapping, NamedTuple, Optional

from tarmac.node.kernel.handles import closing

MACHINE_VARIABLE = "TARMAC_MACHINE_PROC"
"""Passes the /proc of the whole machine to the sidecar alone."""

_STEP_BYTES = 16 * 1024


class Process(NamedTuple):
    """A process and its start time: its pid alone may since belong to another process."""

    pid: int
    start_ticks: int


class Status(NamedTuple):
    """The status of a living or unreaped process in /proc."""

    process: Process
    parent_pid: int
    group: int
    session: int
    unreaped: bool
    name: str


LIVES, LEAVES, EXITED, STRUCK, GONE = "lives", "leaves", "exited", "struck", "gone"
"""The fates of a process: living, about to leave, exited by itself or by a signal, reaped."""

EXEC_S = 1.0
"""Seconds that exec may take; on a busy machine the process may be stopped in between."""

_KERNEL_THREAD = 0x200000
_EXITING = 0x4  # the kernel's PF_EXITING: set before the files of a process are closed
_SIGNAL = 0x7F  # of a wait status


@lru_cache(maxsize=1)
def boot_id() -> str:
    """The kernel's identifier of the current boot."""
    return content("/proc/sys/kernel/random/boot_id").decode().strip()


def status(pid: int) -> Optional[Status]:
    """The status of a process; None if there is none with that pid."""
    found = _stat(pid)
    if found is None:
        return None
    name, fields = found
    return Status(
        Process(pid, int(fields[19])),
        parent_pid=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        unreaped=fields[0] in (b"Z", b"X"),
        name=os.fsdecode(name),
    )


def fate(process: Process) -> str:
    """The fate of a process: one of the words above."""
    fields = _fields(process.pid)
    if fields is None or int(fields[19]) != process.start_ticks:
        return GONE
    if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:  # all of its threads have ended
        return STRUCK if int(fields[49]) & _SIGNAL else EXITED
    return LEAVES if int(fields[6]) & _EXITING else LIVES


def lives(process: Process) -> bool:
    """Whether a process has neither ended nor been replaced by another one."""
    found = status(process.pid)
    return found is not None and not found.unreaped and found.process == process


def state(pid: int) -> bytes:
    """The letter of a process's state; X if it has ended."""
    fields = _fields(pid)
    return b"X" if fields is None else fields[0]


def _fields(pid: int) -> Optional[list[bytes]]:
    """The fields of a process's `stat` from its state on; None if there is none with that pid."""
    found = _stat(pid)
    return None if found is None else found[1]


def _stat(pid: int) -> Optional[tuple[bytes, list[bytes]]]:
    """The name of a process, and its fields."""
    try:
        with closing(os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)) as handle:
            text = os.read(handle, _STEP_BYTES)  # the kernel gives it in one piece
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, fields = text.rpartition(b")")  # the name may contain blanks and brackets
    return name.partition(b"(")[2], fields.split()


def environment(pid: int) -> bytes:
    """The initial environment of a process, each variable ended by a zero byte. Raises OSError if unreadable.

    During exec it is empty for a moment: then it is read again.
    """
    deadline = time.monotonic() + EXEC_S
    while True:
        found = content(f"/proc/{pid}/environ")
        if found or not _has_environment(pid) or time.monotonic() > deadline:
            return found
        select.select([], [], [], 0.001)


def _has_environment(pid: int) -> bool:
    """Whether a process has an environment, or will have one in a moment."""
    fields = _fields(pid)
    if fields is None or fields[0] in (b"Z", b"X") or int(fields[6]) & (_KERNEL_THREAD | _EXITING):
        return False
    begin, end = int(fields[47]), int(fields[48])
    return end == 0 or end > begin


def pids(proc: str = "/proc") -> list[int]:
    """Every current process that `proc` shows."""
    return [int(name) for name in os.listdir(proc) if name.isdigit()]


def of_machine() -> str:
    """The /proc of the machine: a sidecar of a run with its own namespace (`namespaces`) gets it passed."""
    return os.environ.get(MACHINE_VARIABLE, "/proc")


def group(number: int) -> list[Process]:
    """Every living process of a process group."""
    return [item.process for item in _living() if item.group == number]


def session(number: int) -> list[Process]:
    """Every living process of a session."""
    return [item.process for item in _living() if item.session == number]


def _living() -> list[Status]:
    found = map(status, pids())
    return [item for item in found if item is not None and not item.unreaped]


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for this signal."""
    return bool(int(field(f"/proc/{pid}/status", "SigCgt") or "0", 16) >> (number - 1) & 1)


def descendants(of_pid: int, *, but: Collection[int] = (), unreaped: bool = False) -> list[Process]:
    """Every living process (or also `unreaped` ones) below `of_pid`, nearest first, without `but`."""
    children: dict[int, list[Status]] = {}
    for pid in pids():
        found = status(pid)
        if found is not None:
            children.setdefault(found.parent_pid, []).append(found)
    below: list[Process] = []
    pending = [of_pid]
    while pending:
        for found in children.get(pending.pop(0), ()):
            if found.process.pid in but:
                continue
            pending.append(found.process.pid)
            if unreaped or not found.unreaped:
                below.append(found.process)
    return below


def content(path: str) -> bytes:
    """The content of a file; raises OSError."""
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as handle:
        return b"".join(iter(lambda: os.read(handle, _STEP_BYTES), b""))


def content_again(path: str) -> bytes:
    """The first part of a file that each attempt reads, and that therefore stays open. Raises OSError."""
    return os.pread(_opened(path), _STEP_BYTES, 0)


@lru_cache(maxsize=None)
def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def names(directory: str) -> list[str]:
    """The names in a directory; none if it cannot be read."""
    with suppress(OSError):
        return os.listdir(directory)
    return []


def lines(path: str) -> list[str]:
    """The lines of a file; none if it is missing or unreadable."""
    try:
        return content(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def field(path: str, name: str) -> Optional[str]:
    """The value in the line `NAME: VALUE` of a file; None if there is none."""
    found = next((line for line in lines(path) if line.startswith(f"{name}:")), None)
    return None if found is None else found[len(name) + 1 :].strip()


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Transfer(NamedTuple):
    """Bytes read and written by a process so far, by the calls for files and pipes, not those for sockets."""

    read_bytes: int
    written_bytes: int


def resident_bytes(processes: Iterable[Process]) -> int:
    """The memory of processes; shared pages count for each of them: fast."""
    return sum(map(_resident_bytes, processes))


def proportional_bytes(processes: Iterable[Process]) -> int:
    """The memory of processes; shared pages count once: slow, depending on the size."""
    return sum(map(_proportional_bytes, processes))


def cpu_s(processes: Iterable[Process]) -> float:
    """The processor time of processes and of their reaped children so far."""
    found = (_fields(process.pid) for process in processes)
    return sum(sum(map(int, fields[11:15])) for fields in found if fields is not None) / _TICKS_PER_S


def transfers(processes: Iterable[Process]) -> dict[Process, Transfer]:
    """The transfers of each process, except those of other users, which hide them."""
    found = {process: _transfer(process) for process in processes}
    return {process: transfer for process, transfer in found.items() if transfer is not None}


def _transfer(process: Process) -> Optional[Transfer]:
    fields = dict(line.split(": ") for line in lines(f"/proc/{process.pid}/io"))
    return Transfer(int(fields["rchar"]), int(fields["wchar"])) if fields else None


def _resident_bytes(process: Process) -> int:
    found = lines(f"/proc/{process.pid}/statm")
    return int(found[0].split()[1]) * _PAGE_BYTES if found else 0


def _proportional_bytes(process: Process) -> int:
    share = field(f"/proc/{process.pid}/smaps_rollup", "Pss")
    return int(share.split()[0]) * 1024 if share else _resident_bytes(process)


FileId = tuple[int, int]
"""The identity of a file on a disk: device and inode."""


def open_for_writing(
    pids: Iterable[int], files: Collection[FileId], proc: str = "/proc"
) -> dict[FileId, dict[int, bool]]:
    """The files among these that are open for writing, and their writers (pid: only to append)."""
    found: dict[FileId, dict[int, bool]] = {}
    if not files:
        return found
    for pid in pids:
        for file_id, appends in _opened_files(f"{proc}/{pid}", files):
            writers = found.setdefault(file_id, {})
            writers[pid] = appends and writers.get(pid, True)
    return found


def mapped_for_writing(pids: Iterable[int], files: Mapping[FileId, str], proc: str = "/proc") -> set[FileId]:
    """The files among these (identity: name) that a process maps for writing.

    Such a file may be closed. For some file systems the device here differs from that of stat(2).
    """
    inodes = {file_id[1]: file_id for file_id in files}
    found: set[FileId] = set()
    for pid in pids:
        for device, inode, path in _mapped(f"{proc}/{pid}/maps"):
            file_id = inodes.get(inode)
            if file_id and (
                file_id[0] == device or os.path.basename(path) == os.path.basename(files[file_id])
            ):
                found.add(file_id)
    return found


def _opened_files(process: str, files: Collection[FileId]) -> Iterator[tuple[FileId, bool]]:
    for handle in names(f"{process}/fd"):
        try:
            found = os.stat(f"{process}/fd/{handle}")
            file_id = (found.st_dev, found.st_ino)
            if file_id not in files or not stat.S_ISREG(found.st_mode):
                continue
            flags = int(field(f"{process}/fdinfo/{handle}", "flags") or "0", 8)
            if flags & os.O_ACCMODE != os.O_RDONLY:
                yield file_id, bool(flags & os.O_APPEND)
        except OSError:
            continue  # closed since


def _mapped(maps: str) -> Iterator[tuple[int, int, str]]:
    """Device, inode and path of a process's shared writable mappings."""
    with suppress(OSError), open(maps, "rb") as file:
        for line in file:
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[1][1:2] == b"w" and fields[1][3:4] == b"s":
                major, minor = fields[3].split(b":")
                device = os.makedev(int(major, 16), int(minor, 16))
                yield device, int(fields[4]), os.fsdecode(fields[5].rstrip(b"\n"))
