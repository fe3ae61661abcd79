"""Starting a launch script: with which Python, and what becomes of signals and its exit code."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

_PROBE = "import sys, clusterfudge; sys.exit(sys.version_info < (3, 9))"
_PROBE_LIMIT_S = 20.0


def script_python(environment: Mapping[str, str]) -> str:
    """The Python of the user's shell, where it can run a launch script; else the one tarmac runs on."""
    for name in ("python3", "python"):
        program = shutil.which(name, path=environment.get("PATH"))
        if program is not None and _fit(program, environment):
            return program
    return sys.executable


def run_script(argv: Sequence[str], environment: Mapping[str, str], *, aside: bool = False) -> int:
    """Run a script to its end; its exit code as a shell has it. Ctrl-C is the script's.

    `aside`: what it prints goes to stderr, because stdout is for something else.
    """
    stdout = sys.stderr.fileno() if aside else None
    with subprocess.Popen(argv, env=dict(environment), stdout=stdout) as process, _signals_for(process):
        status = process.wait()
    return 128 - status if status < 0 else status


def _fit(program: str, environment: Mapping[str, str]) -> bool:
    try:
        probe = subprocess.run(
            [program, "-c", _PROBE],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_PROBE_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


@contextmanager
def _signals_for(process: subprocess.Popen[Any]) -> Iterator[None]:
    """While a script runs: its terminal sends it Ctrl-C as well as us, other signals are passed on."""

    def passed_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, passed_on),
        signal.SIGHUP: signal.signal(signal.SIGHUP, passed_on),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
