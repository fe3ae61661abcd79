"""Shared by the launchers: their arguments, the run's shape, starting a program and the exit code. Stdlib.

    python3 -m determined.launch.NAME [[OVERRIDES...] --] (--trial TRIAL)|(SCRIPT...)

The exit code is that of the first failed worker, which `wrap_rank` records: torchrun and others replace it by
their own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Callable, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

CODE_FILE = "RANK_EXIT_FILE"
DEVICES = "RANK_DEVICES"

Argv = List[str]
Started = Tuple[Argv, Dict[str, str]]
"""A program to start, with its own variables."""

_HARNESS = ("-m", "determined.exec.harness")
_GRACE_S = 30
"""Seconds that the other workers have to end after one has failed."""

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Shape(NamedTuple):
    """The rank of this node in the run, and the number of processes that it starts."""

    nodes: int
    node_rank: int
    processes: int
    address: str
    port: str


def shape() -> Shape:
    """The shape from the variables of every worker; a single node without them."""
    found = os.environ
    nodes = int(found.get("NNODES", "1"))
    return Shape(
        nodes=nodes,
        node_rank=int(found.get("NODE_RANK", "0")),
        processes=max(1, int(found.get("N_PROC", "1"))),
        address=found.get("MASTER_ADDR", "127.0.0.1"),
        port=found.get("C10D_PORT") or found.get("MASTER_PORT", "29400"),
    )


def main(launcher: str, overrides: str, start: Callable[[Argv, Argv], int]) -> NoReturn:
    """Parse the arguments and start; `overrides` names those before `--` in the usage."""
    arguments = sys.argv[1:]
    usage = (
        f"usage: python3 -m determined.launch.{launcher} [[{overrides}...] --] (--trial TRIAL)|(SCRIPT...)\n"
    )
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(
            f"{usage}\nStarts a process for each slot of this node; those of all nodes are one world.\n\n"
            "  --trial TRIAL  a trial class, filepath:ClassName; needs the package 'determined'\n"
            "  SCRIPT...      a program and its arguments, or a Python file and its arguments\n"
            f"  {overrides}  what is passed to the program that is started, over what tarmac passes; "
            "they end with --\n"
        )
        sys.exit(0)
    ahead, rest = _split(arguments)
    try:
        script = _script(rest)
    except ValueError as problem:
        sys.stderr.write(f"{usage}error: {problem}\n")
        sys.exit(1)
    sys.exit(start(ahead, script))


def _split(arguments: Sequence[str]) -> Tuple[Argv, Argv]:
    """The overrides, before the first `--`, and the rest."""
    if "--" not in arguments:
        return [], list(arguments)
    at = list(arguments).index("--")
    return list(arguments[:at]), list(arguments[at + 1 :])


def _script(rest: Argv) -> Argv:
    """The argv of one worker; raises ValueError with the error in the arguments."""
    if not rest:
        raise ValueError("empty script is not allowed: give a script, or --trial filepath:ClassName")
    if rest[0] != "--trial":
        is_file = rest[0].endswith(".py") and os.path.isfile(rest[0])
        return [sys.executable, *rest] if is_file and shutil.which(rest[0]) is None else rest
    if len(rest) == 1:
        raise ValueError("--trial names no trial class: --trial filepath:ClassName")
    if len(rest) > 2:
        raise ValueError(f"extra arguments to --trial: {' '.join(rest[2:])}; it excludes a script")
    if importlib.util.find_spec("determined.exec") is None:
        raise ValueError(f"--trial {rest[1]} needs the package 'determined', which is not installed here")
    return [sys.executable, *_HARNESS, rest[1]]


def is_trial(script: Argv) -> bool:
    """Whether a worker runs a trial class."""
    return tuple(script[1:3]) == _HARNESS


def wrapped(names: str, script: Argv) -> Argv:
    """The argv of a worker whose lines get its rank as a prefix, the first of these variables that is set."""
    return [sys.executable, "-m", "determined.launch.wrap_rank", names, "--", *script]


def run(argv: Argv, variables: Optional[dict[str, str]] = None) -> int:
    """Start a program and pass signals on to it; its exit code, or that of the first failed worker."""
    return run_all([(argv, variables or {})])


def run_all(programs: Sequence[Started]) -> int:
    """The same for several programs, each with its own variables: the first failure ends the others."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as directory:
        code_file = os.path.join(directory, "exit")
        env = {**os.environ, CODE_FILE: code_file, DEVICES: os.environ.get("CUDA_VISIBLE_DEVICES", "")}
        processes: List[subprocess.Popen[bytes]] = []
        try:
            for argv, variables in programs:
                processes.append(subprocess.Popen(argv, env={**env, **variables}))
        except FileNotFoundError as problem:
            sys.stderr.write(f"error: there is no program {problem.filename!r} here\n")
            _signal(processes, signal.SIGTERM)
            return 127
        for number in _FORWARDED:
            signal.signal(number, lambda received, _frame: _signal(processes, received))
        code = _first_failure(processes)
        if code == 0:
            return 0
        try:
            with open(code_file, encoding="ascii") as file:
                return int(file.read()) or 1
        except (OSError, ValueError):
            return code if code > 0 else 128 - code


def _first_failure(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all, and end them after one has failed; returns the exit code of that one."""
    left, code = {process.pid: process for process in processes}, 0
    while left:
        pid, status = os.wait()
        process = left.pop(pid, None)
        if process is None:
            continue
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0 and code == 0:
            code = process.returncode
            _end(list(left.values()))
    return code


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask processes to end, and kill them after the grace."""
    _signal(processes, signal.SIGTERM)
    signal.signal(signal.SIGALRM, lambda _number, _frame: _signal(processes, signal.SIGKILL))
    signal.alarm(_GRACE_S)


def _signal(processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        process.send_signal(number)
