"""Selects the node's accelerators for a container: devices, and the driver's libraries.

The libraries belong to the driver of the node's kernel, so no image can contain them. Called by the hook
`image`. A container gets only the devices of its slots, if the node identifies those.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
from typing import Mapping, NamedTuple, Optional, Sequence

LIBRARIES = "/usr/lib/tarmac-driver"
"""The directory of the libraries in the container."""

_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_FABRIC = ("/dev/infiniband",)
_PROGRAMS = ("/usr/bin/nvidia-smi", "/usr/bin/nvidia-debugdump")
_KNOWN = "/proc/driver/nvidia/gpus"
_LIBRARY = re.compile(
    r"lib(cuda|cudadebugger|nvidia-[a-z0-9-]+|nvcuvid|nvoptix)\.so(\.[0-9.]+)?",
)
_ENTRY = re.compile(r"^[ \t]{1,8}(\S{1,256}) \((.{0,256})\) => (\S{1,4096})$", re.MULTILINE)


class Devices(NamedTuple):
    """Devices by path, and files of the node with their paths in the container.

    `numbers`: a slot's number in the container, if it differs.
    """

    devices: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    numbers: Mapping[int, int] = {}

    def env(self, image: Mapping[str, str]) -> dict[str, str]:
        """The variables by which programs of an image find the libraries."""
        if not self.files:
            return {}
        paths = [LIBRARIES, *filter(None, [image.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": ":".join(paths)}


def of_slots(slots: Sequence[int]) -> Devices:
    """The devices for a container with these slots; none if the node has no NVIDIA accelerator."""
    if not slots or not os.path.exists(_CONTROL[0]):
        return Devices()
    shown = [path for path in (*_CONTROL, *_FABRIC) if os.path.exists(path)]
    paths, numbers = paths_of(slots, minors(_KNOWN))
    shown += paths or sorted(glob.glob("/dev/nvidia[0-9]*"))
    files = [(path, path) for path in _PROGRAMS if os.path.exists(path)]
    return Devices(tuple(shown), (*files, *libraries(_listed())), numbers)


def minors(directory: str) -> Optional[list[int]]:
    """The numbers of the device files, in the driver's order; None if unknown."""
    found = []
    for place in sorted(glob.glob(os.path.join(glob.escape(directory), "*", "information"))):
        try:
            with open(place, encoding="utf-8", errors="replace") as file:
                line = next(line for line in file if line.startswith("Device Minor:"))
            found.append(int(line.split(":")[1]))
        except (OSError, StopIteration, ValueError):
            return None
    return found or None


def libraries(listing: str) -> list[tuple[str, str]]:
    """The driver's libraries in the output of `ldconfig -p`: those of this architecture, each once."""
    found: dict[str, str] = {}
    for name, kind, path in _ENTRY.findall(listing):
        if _LIBRARY.fullmatch(name) and "64" in kind:
            found.setdefault(name, os.path.realpath(path))
    return [(path, f"{LIBRARIES}/{name}") for name, path in found.items()]


def paths_of(slots: Sequence[int], known: Optional[list[int]]) -> tuple[list[str], Mapping[int, int]]:
    """The device files of slots, and the slots' numbers for programs that see only those.

    Empty if the node does not identify the files: then the container gets all.
    """
    if known is None or max(slots) >= len(known):
        return [], {}
    numbers = {slot: number for number, slot in enumerate(sorted(slots))}
    return [f"/dev/nvidia{known[slot]}" for slot in sorted(slots)], numbers


def _listed() -> str:
    try:
        done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
