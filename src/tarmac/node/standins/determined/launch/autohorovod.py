"""`python3 -m determined.launch.autohorovod`: the script itself with one slot, else as `horovod` (D7, D8)."""

from __future__ import annotations

from . import _start, horovod


def start(overrides: _start.Argv, script: _start.Argv) -> int:
    """One process needs no launcher."""
    place = _start.shape()
    if place.nodes == 1 and place.processes == 1:
        return _start.run(script)
    return horovod.start(overrides, script)


if __name__ == "__main__":
    _start.main("autohorovod", "HVD_OVERRIDES", start)
