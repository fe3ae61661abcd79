"""Monitors the GPUs of this machine in a thread: products, use, and faults.

Made by `agent`. Answers come from the last poll: the driver of a broken GPU may never answer.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Condition, Thread
from typing import Any, Callable, NamedTuple, Optional

from tarmac.node.kernel.nvml import GPU_IS_LOST, RESET_REQUIRED, Nvml, NvmlError, Use, Xid
from tarmac.node.processes.programs import BrokenProgram, output_of


class Times(NamedTuple):
    """Durations in seconds.

    `look_s`: between two polls; `again_s`: until a failed driver is retried, which may be reset meanwhile;
    `first_s`: the first caller's wait; `late_s`: until a poll counts as hanging; `xid_s`: how long a GPU
    counts as broken after a hardware error.
    """

    look_s: float = 5.0
    again_s: float = 10.0
    first_s: float = 20.0
    late_s: float = 60.0
    xid_s: float = 3600.0


USUAL = Times()

HARDWARE_XIDS = {
    48: "an error of its memory that cannot be corrected",
    64: "rows of its memory could not be remapped",
    74: "an error of NVLink",
    79: "it has fallen off the bus",
    95: "an error of its memory that was not contained",
    119: "its system processor does not answer",
    120: "an error of its system processor",
    140: "an error of its memory that was not recovered",
}
"""Other XIDs are mostly errors of programs."""

ASK_S = 20.0
DRIVER_SIGNS = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
"""Without any of these, and without NVML, this machine has no GPU."""


class Look(NamedTuple):
    """The result of a poll: products, the use of each GPU (None: unknown), and faults, as sentences."""

    products: tuple[str, ...] = ()
    use: tuple[Optional[Use], ...] = ()
    problems: tuple[str, ...] = ()


class Gpus:
    """Monitors from `start` on. Thread-safe. `open_library` makes an `Nvml`."""

    def __init__(self, open_library: Callable[[], Nvml] = Nvml, times: Times = USUAL) -> None:
        self._open = open_library
        self._times = times
        self._changed = Condition()
        self._look: Optional[Look] = None
        self._begun_at: Optional[float] = time.monotonic()
        """The start of the last poll; None: there are no GPUs to poll."""
        self._products: tuple[str, ...] = ()
        self._xids: dict[Xid, float] = {}

    def start(self) -> None:
        """Poll in a thread, as long as this process lives."""
        Thread(target=self._watch, name="gpus", daemon=True).start()

    def products(self) -> list[str]:
        """The product name of every GPU, in the order of their numbers, including lost ones."""
        with self._changed:
            self._changed.wait_for(lambda: self._look is not None, self._times.first_s)
            return list(self._look.products if self._look is not None else ())

    def report(self) -> dict[str, Any]:
        """Use by number, and faults: {"gpus": [{...} or None], "gpu_problems": [TEXT]}."""
        with self._changed:
            look = self._look or Look()
            late_s = 0.0 if self._begun_at is None else time.monotonic() - self._begun_at
        problems = list(look.problems)
        if late_s > self._times.late_s:
            problems.append(f"the driver of the GPUs has not answered for {late_s:.0f} s")
        used = [None if use is None else use._asdict() for use in look.use]
        return {"gpus": used, "gpu_problems": problems}

    # --- the thread ------------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            self._begin_look()
            try:
                library = self._open()
            except (OSError, AttributeError):  # the library is missing
                self._set(Look(tuple(_products_by_program())), last=True)
                return
            except NvmlError as error:
                self._set(self._without(error))
                self._rest()
                continue
            try:
                library.watch()
                while not self._look_once(library).problems:
                    self._hear(library)
            except NvmlError as error:
                self._set(self._without(error))
            finally:
                with suppress(NvmlError):
                    library.close()
            self._rest()

    def _look_once(self, library: Nvml) -> Look:
        self._begin_look()
        count = library.count()
        states = [_state(library, gpu) for gpu in range(max(count, len(self._products)))]
        if not self._products:
            known = next((product for product, _, _ in states if product), "GPU")
            self._products = tuple(product or known for product, _, _ in states)
        problems = [f"GPU {gpu}: {problem}" for gpu, (_, _, problem) in enumerate(states) if problem]
        look = Look(self._products, tuple(use for _, use, _ in states), (*problems, *self._xid_problems()))
        self._set(look)
        return look

    def _without(self, error: NvmlError) -> Look:
        """The result of a failed driver: all known GPUs are unusable."""
        problems = (f"the driver of the GPUs fails (NVML error {error.code})",) if self._products else ()
        return Look(self._products, tuple(None for _ in self._products), problems)

    def _hear(self, library: Nvml) -> None:
        """Wait for the next poll; a hardware error reported by the driver ends the wait."""
        until = time.monotonic() + self._times.look_s
        while (left_s := until - time.monotonic()) > 0:
            xid = library.next_xid(left_s)
            if xid is None:
                time.sleep(max(0.0, until - time.monotonic()))
            elif xid.number in HARDWARE_XIDS:
                self._xids[xid] = time.monotonic()
                return

    def _xid_problems(self) -> list[str]:
        recent_at = time.monotonic() - self._times.xid_s
        self._xids = {xid: at for xid, at in self._xids.items() if at > recent_at}
        return [f"{_name(xid.gpu)}: {HARDWARE_XIDS[xid.number]} (XID {xid.number})" for xid in self._xids]

    def _rest(self) -> None:
        self._begin_look()
        time.sleep(self._times.again_s)

    def _begin_look(self) -> None:
        with self._changed:
            self._begun_at = time.monotonic()

    def _set(self, look: Look, *, last: bool = False) -> None:
        with self._changed:
            self._look = look
            if last:
                self._begun_at = None
            self._changed.notify_all()


def _state(library: Nvml, gpu: int) -> tuple[str, Optional[Use], Optional[str]]:
    """The product of a GPU, its use, and its fault."""
    try:
        return library.product(gpu), library.use(gpu), library.broken_memory(gpu)
    except NvmlError as error:
        if error.code == RESET_REQUIRED:
            return "", None, "it needs a reset"
        words = "it is lost" if error.code == GPU_IS_LOST else f"it does not answer (NVML error {error.code})"
        return "", None, words


def _name(gpu: Optional[int]) -> str:
    return "a GPU" if gpu is None else f"GPU {gpu}"


def _products_by_program() -> list[str]:
    """The products by the driver's program, if its library cannot be loaded; empty without a driver."""
    if not any(os.path.exists(sign) for sign in DRIVER_SIGNS):
        return []
    argv = ["nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader"]
    try:
        printed = output_of(argv, b"", timeout_s=ASK_S, variables=os.environ)
    except (OSError, BrokenProgram):
        return []
    lines = (line.partition(",") for line in printed.decode(errors="replace").splitlines())
    named = sorted((int(number), name.strip()) for number, _, name in lines if number.strip().isdigit())
    return [name for _, name in named]
