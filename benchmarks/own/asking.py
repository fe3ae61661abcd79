"""How long a command line takes that does nothing, `--help`; the peers use the same stop-watch."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figures import percentile

CALLS = 20


def asking() -> Mapping[str, float]:
    """`tarmac --help`."""
    return {"help": command_ms([tarmac_program(), "--help"])}


def tarmac_program() -> str:
    """The command `tarmac` of the Python that runs this."""
    return str(Path(sys.executable).with_name("tarmac"))


def command_ms(argv: Sequence[str], *, calls: int = CALLS) -> float:
    """The median time of a command, in milliseconds, once it has been called before."""
    took_s = []
    for _ in range(calls + 1):
        began = time.perf_counter()
        subprocess.run(argv, check=True, capture_output=True)
        took_s.append(time.perf_counter() - began)
    return percentile(took_s[1:], 0.5) * 1000
