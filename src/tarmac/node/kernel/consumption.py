"""Memory, processor time and input and output of processes. Called by `workergroup`, `meter` and `grace`."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Iterable, NamedTuple, Optional

from tarmac.node.kernel import procfs
from tarmac.node.kernel.procfs import Process

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
    return sum(procfs.cpu_ticks(process.pid) for process in processes) / _TICKS_PER_S


def transfers(processes: Iterable[Process]) -> dict[Process, Transfer]:
    """The transfers of each process, except those of other users, which hide them."""
    found = {process: _transfer(process) for process in processes}
    return {process: transfer for process, transfer in found.items() if transfer is not None}


def _transfer(process: Process) -> Optional[Transfer]:
    with suppress(OSError, ValueError, KeyError), open(f"/proc/{process.pid}/io", encoding="ascii") as file:
        fields = dict(line.split(": ") for line in file)
        return Transfer(int(fields["rchar"]), int(fields["wchar"]))
    return None


def _resident_bytes(process: Process) -> int:
    path = f"/proc/{process.pid}/statm"
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES
    return 0


def _proportional_bytes(process: Process) -> int:
    path = f"/proc/{process.pid}/smaps_rollup"
    with suppress(OSError, ValueError, StopIteration), open(path, encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("Pss:")).split()[1]) * 1024
    return _resident_bytes(process)
