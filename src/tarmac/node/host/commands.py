"""Runs commands on a host, each with a deadline; none outlives the connection. Called by `operations`."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Condition
from typing import Iterator

BEGINNING_S = 5.0
"""The wait for commands that are starting, before they are ended: their file may be on a slow disk."""


class Commands:
    """The running commands. Thread-safe."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._running: set[int] = set()
        self._beginning = 0
        self._over = False

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code, output and error output. Raises OSError; TimeoutError at the deadline."""
        with self._begun(argv, env) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except BaseException as problem:
                _end(process.pid)
                if isinstance(problem, subprocess.TimeoutExpired):
                    message = f"did not answer within {timeout_s:g} s"
                    raise TimeoutError(errno.ETIMEDOUT, message, argv[0]) from None
                raise
        return process.returncode, out, err

    def end(self) -> None:
        """End every running or starting command; no other can start."""
        with self._changed:
            self._over = True
            self._changed.wait_for(lambda: not self._beginning, BEGINNING_S)
            for pid in self._running:
                _end(pid)

    @contextmanager
    def _begun(self, argv: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        with self._changed:
            if self._over:
                raise OSError(errno.ESHUTDOWN, "no command begins any more", argv[0])
            self._beginning += 1
        process = None
        try:
            process = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
            )
        finally:
            with self._changed:
                self._beginning -= 1
                self._running.update([process.pid] if process is not None else [])
                self._changed.notify_all()
        with process:
            try:
                yield process
            finally:
                with self._changed:
                    self._running.discard(process.pid)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
