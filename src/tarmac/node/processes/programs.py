"""A program of the administrator that answers one question: its output, within a time and a size.

Called on the server's machine alone: by the submission hook, and for the commands of a provider of machines.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO, Optional

LARGEST_BYTES = 1 << 16
"""Maximum size of what a program prints."""

_LOOK_S = 0.1
_LONGEST_DETAILS = 500
_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")
"""The only variables of the server that a program gets: others may hold secrets."""

_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class BrokenProgram(Exception):
    """The program gave no valid answer; `details` are what it printed on stderr, for the server's log.

    `exit_code` is None unless it ended by itself. It had no effect if it was not even `started`.
    """

    def __init__(
        self, problem: str, details: str = "", *, exit_code: Optional[int] = None, started: bool = True
    ) -> None:
        super().__init__(problem)
        self.details = details
        self.exit_code = exit_code
        self.started = started


def output_of(
    argv: Sequence[str],
    question: bytes,
    *,
    timeout_s: float,
    variables: Mapping[str, str] = _NO_VARIABLES,
    largest_bytes: int = LARGEST_BYTES,
) -> bytes:
    """The output of a program. Raises BrokenProgram; all processes of its group are ended."""
    deadline = time.monotonic() + timeout_s
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(question)
        given.seek(0)
        try:
            process = subprocess.Popen(
                argv,
                stdin=given,
                stdout=output,
                stderr=errors,
                cwd="/",
                env={**{name: os.environ[name] for name in _VARIABLES if name in os.environ}, **variables},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise BrokenProgram("it cannot be started", str(error), started=False) from None
        try:
            while _runs(process, min(_LOOK_S, deadline - time.monotonic())):
                if time.monotonic() >= deadline:
                    raise BrokenProgram(f"it did not answer within {timeout_s:g} s", _printed(errors))
                _check_size(largest_bytes, output, errors)
            _check_size(largest_bytes, output, errors)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        code = process.returncode
        if code != 0:
            raise BrokenProgram(f"it ended with exit code {code}", _printed(errors), exit_code=code)
        output.seek(0)
        return output.read(largest_bytes)


def _runs(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Whether the process still runs after this time."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, limit_s))
        return False
    return True


def _check_size(largest_bytes: int, *files: IO[bytes]) -> None:
    if any(os.fstat(file.fileno()).st_size > largest_bytes for file in files):
        raise BrokenProgram(f"it printed more than {largest_bytes >> 10} KiB", _printed(files[-1]))


def _printed(errors: IO[bytes]) -> str:
    """The end of what a program printed on stderr."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _LONGEST_DETAILS))
    return errors.read(_LONGEST_DETAILS).decode(errors="replace")
