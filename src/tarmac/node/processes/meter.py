"""Measures the workers' use of a node: memory, processors, GPUs. Read by the hook `watch`, ended by `runner`.

A process beside the runner starts measuring shortly after the workers, and stores the newest figures in the
attempt directory: the driver of a broken GPU may never answer, and summing up large memory takes time.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any, Iterable, Mapping, NamedTuple, NoReturn, Optional, Sequence

from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs
from tarmac.node.kernel.nvml import Nvml, NvmlError
from tarmac.node.processes import detach
from tarmac.node.processes.children import Aside

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SHARE = 0.01


class Times(NamedTuple):
    """Seconds until the first measurement, as a fork costs a short attempt much; then the interval.

    The interval is longer if measuring takes more than a hundredth of it.
    """

    after_s: float = 2.0
    period_s: float = 5.0


USUAL = Times()


class Meter(Aside):
    """The meter of one node's part; it writes the figures to the file `path`."""

    def __init__(self, path: str, times: Times = USUAL) -> None:
        super().__init__(self._measure)
        self._path = path
        self._times = times
        self._workers: tuple[float, Sequence[int], Sequence[int]] = (0.0, (), ())

    def begin(self, leaders: Sequence[int], gpus: Sequence[int]) -> None:
        """Measure these started workers and all their descendants, with the GPUs of these numbers."""
        now = time.monotonic()
        self._workers = now, leaders, gpus
        self.due = now + self._times.after_s

    def _measure(self, runner: int) -> NoReturn:
        """Measure until the runner ends this process or has ended."""
        at, leaders, gpus = self._workers
        gone = detach.beside(runner, "tarmac-meter")
        driver, spent_s = _driver(gpus), 0.0
        while os.getppid() == runner:
            began = time.monotonic()
            found = [each for leader in leaders for each in procfs.descendants(leader)]
            found += [known.process for known in map(procfs.status, leaders) if known is not None]
            total_s = procfs.cpu_s(found)
            figures = {
                "at": time.time(),
                "memory_bytes": procfs.proportional_bytes(found),
                "cpus": round(max(total_s - spent_s, 0.0) / max(began - at, 0.001), 3),
                "gpus": _used(driver, gpus),
            }
            spent_s, at = total_s, began
            with suppress(OSError):  # a full disk
                untrusted.replace(self._path, json.dumps(figures).encode())
            took_s = time.monotonic() - began
            gone.poll(max(self._times.period_s, took_s / _SHARE) * 1000)
        os._exit(0)


def gpus_of(environments: Iterable[Mapping[str, str]]) -> list[int]:
    """The numbers of the GPUs visible to workers with these variables."""
    named = {name.strip() for env in environments for name in env.get(_VISIBLE, "").split(",")}
    return sorted(int(name) for name in named if name.isdecimal())


def _driver(gpus: Sequence[int]) -> Optional[Nvml]:
    if gpus:
        with suppress(OSError, AttributeError, NvmlError):  # the library is missing or too old
            return Nvml()
    return None


def _used(driver: Optional[Nvml], gpus: Sequence[int]) -> list[dict[str, Any]]:
    """The use of each GPU that answers."""
    used: list[dict[str, Any]] = []
    if driver is None:
        return used
    for gpu in gpus:
        with suppress(NvmlError):
            used.append({"index": gpu, **driver.use(gpu)._asdict()})
    return used
