"""What of the node's accelerators a container is shown: devices, and the driver's libraries.

The libraries belong to the driver of the node's kernel, so no image can bring them along. Called by the hook
`image`. A container is shown the devices of its slots alone where the node says which those are.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
from typing import Mapping, NamedTuple, Optional, Sequence

LIBRARIES = "/usr/lib/tarmac-driver"
"""Where the libraries are seen."""

_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_FABRIC = ("/dev/infiniband",)
_PROGRAMS = ("/usr/bin/nvidia-smi", "/usr/bin/nvidia-debugdump")
_KNOWN = "/proc/driver/nvidia/gpus"
_LIBRARY = re.compile(
    r"lib(cuda|cudadebugger|nvidia-[a-z0-9-]+|nvcuvid|nvoptix)\.so(\.[0-9.]+)?",
)
_ENTRY = re.compile(r"^[ \t]{1,8}(\S{1,256}) \((.{0,256})\) => (\S{1,4096})$", re.MULTILINE)


class Devices(NamedTuple):
    """Devices by path, and files of the node with where they are seen.

    `numbers`: what a slot is called in the container, where that is not its own number.
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
    """What a container with these slots is shown; nothing where the node has no accelerator of NVIDIA's."""
    if not slots or not os.path.exists(_CONTROL[0]):
        return Devices()
    shown = [path for path in (*_CONTROL, *_FABRIC) if os.path.exists(path)]
    paths, numbers = paths_of(slots, minors(_KNOWN))
    shown += paths or sorted(glob.glob("/dev/nvidia[0-9]*"))
    files = [(path, path) for path in _PROGRAMS if os.path.exists(path)]
    return Devices(tuple(shown), (*files, *libraries(_listed())), numbers)


def minors(directory: str) -> Optional[list[int]]:
    """The numbers of the device files, in the order in which the driver counts; None: it does not say."""
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
    """The driver's libraries in what `ldconfig -p` prints: those of this machine's kind, each once."""
    found: dict[str, str] = {}
    for name, kind, path in _ENTRY.findall(listing):
        if _LIBRARY.fullmatch(name) and "64" in kind:
            found.setdefault(name, os.path.realpath(path))
    return [(path, f"{LIBRARIES}/{name}") for name, path in found.items()]


def paths_of(slots: Sequence[int], known: Optional[list[int]]) -> tuple[list[str], Mapping[int, int]]:
    """The device files of slots, and how programs that see only those count them.

    Nothing where the node does not say which file is whose: all are shown then.
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
