"""A connection to a host: a process of `ssh`, and a program of ours at its far end. Made by `remote`.

Nothing is installed there: `node/host/loading.py` is sent as text, and loads the rest of the package into
memory. After its mark the connection carries frames only (`node/wire/connection.py`); earlier output of a
login shell is skipped. Calls may overlap. The program ends with the connection.
"""

import json
import os
import shlex
import subprocess
import time
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO, cast

from tarmac.engines.hosts import installing
from tarmac.node.files import untrusted
from tarmac.node.starting import NODE_DIRECTORY
from tarmac.node.wire import connection as wire

CONNECT_S = 60.0
"""Time limit for the login, the login shell, and the first output of our program."""

SERVING = "tarmac.node.host.operations"
PROGRAM_BYTES = 8192
"""The size of the first program, padded with blanks."""

EXEC_CODE = f"import sys;exec(sys.stdin.buffer.read({PROGRAM_BYTES}))"
"""The command-line code of a Python that reads that program."""

LONGEST_LINE_BYTES = 64 * 1024
LARGEST_NOISE_LINES = 100_000
KEPT_LINES = 20


@dataclass(eq=False)
class NotConnected(Exception):
    """The connection failed; `lines` are the last lines of ssh or the host, `code` is ssh's exit code."""

    reason: str
    lines: Sequence[str] = ()
    code: int | None = None
    old_python: str = ""

    def __str__(self) -> str:
        return self.reason


class Connection(wire.Connection):
    """One connection, unusable once it is lost. Thread-safe.

    `argv` is an ssh command, to which the command for the host is appended. `packages` are loaded there, and
    `serve` of the module `begin` answers. `lean`: with the standard library alone. Raises NotConnected.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        python: str,
        connect_s: float = CONNECT_S,
        packages: tuple[Path, ...] = (NODE_DIRECTORY,),
        begin: str = SERVING,
        lean: bool = True,
        margin_s: float = wire.MARGIN_S,
    ) -> None:
        self.began_at = time.monotonic()
        self._mark = f"tarmac-{os.urandom(12).hex()}".encode()
        self._word = b""
        self._ready = Event()
        self._noise: deque[str] = deque(maxlen=KEPT_LINES)
        self._reasons: deque[str] = deque(maxlen=KEPT_LINES)
        command = f"{python} {'-I -S ' if lean else ''}-c {shlex.quote(EXEC_CODE)}"  # it may be several words
        program = loading_program(self._mark.decode(), packages=packages, begin=begin)
        try:
            self._process = subprocess.Popen(
                [*argv, _by_login_shell(command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NotConnected(f"ssh cannot be run on this machine: {error.strerror}") from None
        self.pid = self._process.pid
        """The process of ssh."""
        assert self._process.stdin is not None
        descriptor = self._process.stdin.fileno()
        os.set_blocking(descriptor, False)
        super().__init__(descriptor, close=self._process.kill, margin_s=margin_s)
        self._errors = Thread(target=self._read_errors, name="ssh-errors", daemon=True)
        self._errors.start()
        Thread(target=self._read_answers, name="ssh-answers", daemon=True).start()
        self._load(program, connect_s)

    @property
    def lines(self) -> tuple[str, ...]:
        """The last other output of the host; lines of stderr come last, because they explain the end."""
        return (*self._noise, *self._reasons)

    # --- inside ----------------------------------------------------------------------------------

    def _load(self, program: bytes, connect_s: float) -> None:
        """Send our program, and wait until it answers."""
        with suppress(wire.Lost):  # the last lines explain more
            self.write_raw(program, connect_s)
        if not self._ready.wait(max(0.0, self.began_at + connect_s - time.monotonic())):
            self.close()
            raise NotConnected(f"no answer within {connect_s:g} s", self._last_lines())
        if self.lost_at is not None:
            raise NotConnected("the connection ended", self._last_lines(), self._process.returncode)
        if self._word.startswith(b"old"):
            self.close()
            raise NotConnected(
                "its Python is too old", old_python=self._word[3:].strip().decode(errors="replace")
            )

    def _read_answers(self) -> None:
        """Read answers, in a thread of its own."""
        assert self._process.stdout is not None
        output = cast(BinaryIO, self._process.stdout)
        with suppress(OSError, ValueError):
            if self._pass_over_noise(output):
                self._ready.set()
                self.run(output)
        self._process.kill()
        self._process.wait()
        self.lose("; ".join(self._last_lines()[-2:]))
        self._ready.set()
        with self.sending:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()

    def _pass_over_noise(self, output: BinaryIO) -> bool:
        """Read up to our mark; False if it does not come."""
        for _ in range(LARGEST_NOISE_LINES):
            line = output.readline(LONGEST_LINE_BYTES)
            if not line:
                return False
            if line.startswith(self._mark):
                self._word = line[len(self._mark) :].strip()
                self._noise.clear()
                self._reasons.clear()  # later lines concern the end
                return True
            _keep(line, self._noise)
        return False

    def _read_errors(self) -> None:
        """Read the error output of ssh and the host, in a thread of its own."""
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            while line := errors.readline(LONGEST_LINE_BYTES):
                _keep(line, self._reasons)

    def _last_lines(self) -> tuple[str, ...]:
        self._errors.join(0.5)
        return self.lines


def _keep(line: bytes, lines: deque[str]) -> None:
    if text := line.decode(errors="replace").strip():
        lines.append(text[:500])


def loading_program(
    mark: str, *, packages: tuple[Path, ...] = (NODE_DIRECTORY,), begin: str = SERVING
) -> bytes:
    """The input for a Python at the other end: a program that loads these packages, and begins.

    See `EXEC_CODE`.
    """
    modules = _modules(packages)
    path = str(NODE_DIRECTORY / "host/loading.py")
    loader = untrusted.read_bytes(path, installing.LARGEST_MODULE_BYTES)
    code = loader + f"\nload({mark!r}, {len(modules)}, {begin!r})\n".encode()
    return code.ljust(PROGRAM_BYTES) + modules


def login_command(argv: Sequence[str]) -> str:
    """The command for the host that runs `argv` with our input and output."""
    return _by_login_shell(shlex.join(argv))


def _by_login_shell(command: str) -> str:
    """The command for any login shell of the host.

    It runs the command in a login shell of bash, which knows the path of Slurm's commands; while that reads
    its profile it has another input than ours.
    """
    run = f"exec {command} <&3 3<&-"
    return f"exec bash -c {shlex.quote(f'exec bash -l -c {shlex.quote(run)} 3<&0 </dev/null')}"


@cache
def _modules(packages: tuple[Path, ...]) -> bytes:
    """The compressed texts of all modules to send, by name."""
    texts = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): content.decode()
        for path, content in installing.collect(packages).items()
    }
    return zlib.compress(json.dumps(texts).encode(), 9)
