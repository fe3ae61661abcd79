"""The resources of this machine: its accelerators, processors and memory.

Called once, when the local engine is created, and by `tarmac doctor`. The only place that imports NVML.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from tarmac.engines.hosts.slot_types import slot_type
from tarmac.model.resources import CPU_ONLY

VIRTUAL_SLOTS = 8

DRIVER_SIGNS = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Without any of these there is no GPU, and no need to load the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine's resources. `note` explains to the user slots that are not real."""

    hostname: str
    slots: int
    slot_type: str
    cpus: float
    memory_bytes: int
    note: str | None = None


def survey() -> Machine:
    """This machine now: its GPUs, else virtual slots."""
    products = gpu_products()
    slot_types = {slot_type(product) for product in products}
    note = None
    if not products:
        note = f"no GPU found: this machine offers {VIRTUAL_SLOTS} virtual slots of type {CPU_ONLY}"
    elif len(slot_types) > 1:
        note = (
            f"GPUs of several types ({', '.join(sorted(slot_types))}): all count as {slot_type(products[0])}"
        )
    return Machine(
        hostname=socket.gethostname(),
        slots=len(products) or VIRTUAL_SLOTS,
        slot_type=slot_type(products[0]) if products else CPU_ONLY,
        cpus=float(len(os.sched_getaffinity(0))),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        note=note,
    )


def gpu_products() -> list[str]:
    """The product name of every GPU, in the order of their numbers; empty without a driver."""
    if not any(sign.exists() for sign in DRIVER_SIGNS):
        return []
    import pynvml  # noqa: PLC0415 - slow to load, and of use on few machines

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
        return [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
