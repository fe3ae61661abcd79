"""The command line as a person uses it: real processes over a home of their own. For the end-to-end tests."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import MappingProxyType, TracebackType
from typing import Any, Self

from tarmac.node.kernel.sockets import readable
from warm_commands import WARM

LIMIT_S = 120.0
LOOK_AGAIN_S = 0.1
"""The pause before a command is repeated: what a test waits for needs the processor, too."""

Result = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Shell:
    """A user with a tarmac home and a directory to work in."""

    home: Path
    directory: Path

    def environment(self, **variables: str) -> dict[str, str]:
        """What a command sees: this home, and none of the tester's own settings."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("TARMAC_")}
        own.pop("NO_COLOR", None)
        return {**own, "TARMAC_HOME": str(self.home), "TERM": "xterm-256color", "COLUMNS": "100", **variables}

    def tarmac(
        self,
        *arguments: str,
        stdin: str = "",
        code: int | None = None,
        limit_s: float = LIMIT_S,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Result:
        """Run a command to its end; with `code`, insist on that exit code.

        It is a fork of a warm process; those of `start` and `Screen` begin in a Python of their own.
        """
        environment = self.environment(**variables)
        result = WARM.run(
            arguments, directory=self.directory, environment=environment, limit_s=limit_s, stdin=stdin
        )
        if result is None:
            result = subprocess.run(
                command(*arguments),
                cwd=self.directory,
                env=environment,
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=limit_s,
            )
        assert "Traceback" not in result.stderr, result.stderr
        assert code is None or result.returncode == code, (result.returncode, result.stdout, result.stderr)
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The JSON document a command prints."""
        return json.loads(self.tarmac(*arguments, "--json", code=code).stdout)

    def start(
        self, *arguments: str, variables: Mapping[str, str] | None = None, **streams: Any
    ) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            command(*arguments),
            cwd=self.directory,
            env=self.environment(**(variables or {})),
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        )

    def write(self, name: str, text: str) -> str:
        """Write a file into the working directory; its name."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def gate(self) -> Path:
        """A FIFO that a worker can wait at (`read line < gate`) until a test writes a line into it."""
        path = self.home.parent / "gate"
        os.mkfifo(path)
        return path

    def wait_until(self, run: str, state: str) -> None:
        """Until a run is in a state, as its history tells."""
        deadline = time.monotonic() + LIMIT_S
        while self.json("show", run)["run"]["state"] != state:
            assert time.monotonic() < deadline, self.tarmac("show", run).stdout
            Event().wait(LOOK_AGAIN_S)

    def until(self, *arguments: str, said: str) -> None:
        """Until a command prints these words."""
        deadline = time.monotonic() + LIMIT_S
        while said not in (text := self.tarmac(*arguments).stdout):
            assert time.monotonic() < deadline, text
            Event().wait(LOOK_AGAIN_S)

    def close(self) -> None:
        """End every run and the server. What was never started needs no end."""
        if not (self.home / "server.sock").exists():
            return
        live = [run["id"] for run in self.json("ls")["runs"] if run["state"] != "ended"]
        if live:
            self.tarmac("stop", "--wait", *live)
        self.tarmac("server", "stop")


def command(*arguments: str) -> list[str]:
    """The argv of the command line."""
    return [sys.executable, "-m", "tarmac.cli", *arguments]


class Screen:
    """A command on a terminal of its own, read as it comes; keys can be pressed."""

    def __init__(self, shell: Shell, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command(*arguments),
            cwd=shell.directory,
            env=shell.environment(**(variables or {})),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 a single system call
        )
        os.close(slave)
        self.text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._master)

    def press(self, keys: str) -> None:
        """Type something."""
        os.write(self._master, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal another size; the command hears of it."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_cooked(self) -> bool:
        """Whether the terminal takes whole lines, as it did at first."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ICANON)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Until the screen has shown `pattern`."""
        deadline = time.monotonic() + LIMIT_S
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.text!r}"
            assert self._read(deadline), f"it ended without {pattern!r}: {self.text!r}"
        return found

    def end(self) -> int:
        """Read all that is left; the exit code."""
        deadline = time.monotonic() + LIMIT_S
        while self._read(deadline):
            pass
        return self.process.wait(LIMIT_S)

    def _read(self, deadline: float) -> bool:
        """Read what there is; False once the command has closed its terminal."""
        came = readable(self._master, deadline - time.monotonic())
        assert came, f"nothing comes any more after {self.text!r}"
        try:
            content = os.read(self._master, 65536)
        except OSError:  # Linux: the other side has gone
            return False
        self.text += content.decode(errors="replace")
        return bool(content)


def _take_terminal() -> None:
    """In the child: make its terminal the controlling one, so that Ctrl-C reaches it as a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
