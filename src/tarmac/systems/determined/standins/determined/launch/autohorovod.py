"""`python3 -m determined.launch.autohorovod`: the script itself with one slot, else like `horovod` (D7, D8).

torch_distributed starts a trial class of several slots if horovod cannot.
"""

from __future__ import annotations

import shutil
import sys

from . import _start, horovod, torch_distributed


def start(overrides: _start.Argv, script: _start.Argv) -> int:
    """Start the script; one process needs no launcher."""
    place = _start.shape()
    if place.nodes == 1 and place.processes == 1:
        return _start.run(script)
    if shutil.which("horovodrun") is not None or not _start.is_trial(script):
        return horovod.start(overrides, script)
    sys.stderr.write(
        "horovodrun is not installed: the trial class is started by determined.launch.torch_distributed\n"
    )
    return torch_distributed.start([], script)


if __name__ == "__main__":
    _start.main("autohorovod", "HVD_OVERRIDES", start)
