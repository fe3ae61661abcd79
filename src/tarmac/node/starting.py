"""The command lines that start a runner or a warm parent on a node, and the path of the SDK there.

Called by engines. All commands run by path, so the package may have been copied to a machine without tarmac.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import NamedTuple, Optional

NODE_DIRECTORY = Path(__file__).resolve().parent
"""This package, which an engine copies to another machine (as .../tarmac/node)."""

# Isolated and without site: the runner needs only the standard library, and starts in a third of the time.
_LEAN = ("-I", "-S")

SESSION_TIMEOUT_S = 60.0


class Installation(NamedTuple):
    """The Python of the nodes, 3.9 or later, and the path of this package there."""

    python: str
    package: str = str(NODE_DIRECTORY)

    @property
    def sdk(self) -> str:
        """The `sdk` of attempt.json: on PYTHONPATH it makes `import tarmac` work."""
        return f"{self.package}/shim"

    def run(self, directory: str, node: str) -> list[str]:
        """The argv of a runner for one node of an attempt; it runs until the node's part has ended."""
        return self._command("run", directory, node)

    def join(
        self, directory: str, rank: str, nodes: str, ends_at: str, devices: Optional[str] = None
    ) -> list[str]:
        """The same on a node granted by a cluster with a queue of its own (see `GrantedNode`).

        The words may be variables of a shell that a launcher starts there.
        """
        words = (directory, rank, nodes, ends_at)
        return self._command("join", *words, *([] if devices is None else [devices]))

    def take(self, directory: str, digest: str) -> list[str]:
        """The argv that stores a snapshot of code, read from its input, for runners.

        Exit code 0 if the snapshot is stored or was before; else its error output contains the reason.
        """
        return self._command("take", directory, digest)

    def trial(self, directory: str, driver: str) -> list[str]:
        """The argv that tries to make a container and prints JSON: see `making.Trial`."""
        return self._command("trial", directory, driver)

    def as_user(self, name: str, least_uid: int) -> list[str]:
        """The argv that executes a command of the shell, appended to it, as a system user; for root."""
        return self._command("as", name, str(least_uid))

    def warm(self, fd: int, *, idle_s: int = 0) -> list[str]:
        """The argv of a warm parent that serves the connected unix stream socket inherited as `fd`.

        A finished runner waits `idle_s` for another attempt; 0: it ends.
        """
        return self._command("warm", str(fd), str(idle_s))

    def start_session(self, far: socket.socket) -> None:
        """Start the far end of a session on a connected stream socket; returns after it is independent.

        Raises OSError and SubprocessError.
        """
        subprocess.run(
            [self.python, *_LEAN, f"{self.package}/session", str(far.fileno())],
            pass_fds=(far.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            check=True,
            timeout=SESSION_TIMEOUT_S,
        )

    def session_on_streams(self, mark: str) -> list[str]:
        """The argv of the far end of a session on standard input and output, which begins with a line `mark`.

        It ends with the session.
        """
        return [self.python, *_LEAN, f"{self.package}/session", "-", mark]

    def _command(self, *words: str) -> list[str]:
        return [self.python, *_LEAN, self.package, *words]
