"""A program whose output is shown as it comes and can be waited on, line by line. Used by `demo`."""

from __future__ import annotations

import queue
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence


class NotSeen(Exception):
    """The awaited line did not come."""


class Follower:
    """A running program. Every line of its output is printed, indented, and kept for `wait_for`."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, *, within_s: float) -> re.Match[str]:
        """The next line that matches; raises NotSeen when the program ends or the time is up before."""
        deadline = time.monotonic() + within_s
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left_s)
            except queue.Empty:
                break
            if line is None:
                raise NotSeen(f"the program ended with code {self._process.wait()} before {pattern!r}")
            if match := re.search(pattern, line):
                return match
        raise NotSeen(f"no line like {pattern!r} within {within_s:.0f} s")

    def wait(self, *, within_s: float) -> int:
        """The program's exit code."""
        code = self._process.wait(within_s)
        self._reader.join()
        return code

    def end(self) -> None:
        """End the program, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print(f"    {line}", end="", flush=True)
            self._lines.put(line)
        self._lines.put(None)
