"""Runs a launch script: selects its Python, and handles signals and its exit code. Called by `launch`."""

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
    """The Python of the user's shell if it can run a launch script, else the one that runs tarmac."""
    for name in ("python3", "python"):
        program = shutil.which(name, path=environment.get("PATH"))
        if program is not None and _fit(program, environment):
            return program
    return sys.executable


def run_script(argv: Sequence[str], environment: Mapping[str, str], *, aside: bool = False) -> int:
    """Run a script to its end; return its exit code as a shell does. Ctrl-C is left to the script.

    `aside`: its output goes to stderr, because stdout is used for the answer.
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
    """While a script runs, ignore Ctrl-C, which its terminal sends to it as well; pass other signals on."""

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
