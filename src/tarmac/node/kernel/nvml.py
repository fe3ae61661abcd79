"""The library of NVIDIA's driver (NVML), by ctypes: the GPUs, their condition, their use and their reports.

Called by `gpus` and `meter`. Any call may hang if the hardware is broken: make it in a thread or a process
that is never waited for.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional

LIBRARY = "libnvidia-ml.so.1"

GPU_IS_LOST = 15
RESET_REQUIRED = 16
_IS_LATE = 10
_XID_EVENT = 8
_NAME_BYTES = 96


class NvmlError(Exception):
    """A call failed; `code` is NVML's."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML returned {code}")
        self.code = code


class Use(NamedTuple):
    """The current use of a GPU: the share of busy time, and memory, in bytes."""

    busy_percent: int
    used_bytes: int
    total_bytes: int


class Xid(NamedTuple):
    """An error reported by the driver, with the number of its GPU if known."""

    number: int
    gpu: Optional[int]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml:
    """The open library, from the first call to `close`. Raises OSError if it is missing, else NvmlError."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = ctypes.CDLL(library)
        self._call("nvmlInit_v2")
        self._events: Optional[ctypes.c_void_p] = None
        self._handles: dict[int, ctypes.c_void_p] = {}

    def close(self) -> None:
        """Release the driver, so that an administrator may reset GPUs."""
        if self._events is not None:
            self._try("nvmlEventSetFree", self._events)
        self._try("nvmlShutdown")

    def count(self) -> int:
        """The driver's number of GPUs."""
        found = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(found))
        return found.value

    def product(self, gpu: int) -> str:
        """The product name of a GPU."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("nvmlDeviceGetName", self._handle(gpu), text, ctypes.c_uint(_NAME_BYTES))
        return text.value.decode(errors="replace")

    def use(self, gpu: int) -> Use:
        """The current use of a GPU."""
        rates, memory = _Utilization(), _Memory()
        self._try("nvmlDeviceGetUtilizationRates", self._handle(gpu), ctypes.byref(rates))
        self._call("nvmlDeviceGetMemoryInfo", self._handle(gpu), ctypes.byref(memory))
        return Use(rates.gpu, memory.used, memory.total)

    def broken_memory(self, gpu: int) -> Optional[str]:
        """The fault in a GPU's memory (ECC), as a sentence; None if there is none, or it is not reported."""
        counts = [ctypes.c_uint() for _ in range(4)]
        handle = self._handle(gpu)
        if self._try("nvmlDeviceGetRemappedRows", handle, *map(ctypes.byref, counts)):
            if counts[3].value:
                return "rows of its memory could not be remapped: replace it"
            return "rows of its memory wait to be remapped: reset it" if counts[2].value else None
        pending = ctypes.c_uint()
        if self._try("nvmlDeviceGetRetiredPagesPendingStatus", handle, ctypes.byref(pending)):
            return "pages of its memory wait to be retired: reset it" if pending.value else None
        return None

    def watch(self) -> None:
        """Report XID errors from now on, of the GPUs that support it."""
        events = ctypes.c_void_p()
        if not self._try("nvmlEventSetCreate", ctypes.byref(events)):
            return
        self._events = events
        for gpu in range(self.count()):
            try:
                handle = self._handle(gpu)
            except NvmlError:
                continue
            self._try("nvmlDeviceRegisterEvents", handle, ctypes.c_ulonglong(_XID_EVENT), events)

    def next_xid(self, timeout_s: float) -> Optional[Xid]:
        """The next XID error; None if none arrives in time, at once if no GPU reports errors."""
        if self._events is None:
            return None
        event, wait_ms = _Event(), ctypes.c_uint(int(timeout_s * 1000))
        try:
            self._call("nvmlEventSetWait_v2", self._events, ctypes.byref(event), wait_ms)
        except NvmlError as error:
            if error.code == _IS_LATE:
                return None
            raise
        gpu = next((gpu for gpu, handle in self._handles.items() if handle.value == event.device), None)
        return Xid(int(event.data), gpu)

    def _handle(self, gpu: int) -> ctypes.c_void_p:
        if gpu not in self._handles:
            handle = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(gpu), ctypes.byref(handle))
            self._handles[gpu] = handle
        return self._handles[gpu]

    def _call(self, name: str, *arguments: Any) -> None:
        code = int(getattr(self._library, name)(*arguments))
        if code != 0:
            raise NvmlError(code)

    def _try(self, name: str, *arguments: Any) -> bool:
        """Call a function; False if it is not supported. Raises NvmlError if the GPU is lost."""
        try:
            self._call(name, *arguments)
        except AttributeError:  # an older driver
            return False
        except NvmlError as error:
            if error.code in (GPU_IS_LOST, RESET_REQUIRED):
                raise
            return False
        return True
