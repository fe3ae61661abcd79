"""How to start a runner or a warm parent on a node: the command lines, and where the SDK lies there.

Called by engines. All commands run by path, so the package may have been copied to a machine without tarmac.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Optional

NODE_DIRECTORY = Path(__file__).resolve().parent
"""This package: what an engine copies to another machine (as .../tarmac/node)."""

# Isolated and without site: the runner needs the standard library alone, and starts in a third of the time.
_LEAN = ("-I", "-S")


class Installation(NamedTuple):
    """The Python of the nodes, 3.9 or later, and where this package lies there."""

    python: str
    package: str = str(NODE_DIRECTORY)

    @property
    def sdk(self) -> str:
        """What `sdk` in attempt.json names: on PYTHONPATH it makes `import tarmac` work."""
        return f"{self.package}/shim"

    def run(self, directory: str, node: str) -> list[str]:
        """The argv of a runner for one node of an attempt; it runs until the node's part has ended."""
        return self._command("run", directory, node)

    def join(
        self, directory: str, rank: str, nodes: str, ends_at: str, devices: Optional[str] = None
    ) -> list[str]:
        """The same on a node that a cluster with a queue of its own has given (see `granted`).

        The words may be variables of a shell that a launcher starts there.
        """
        words = (directory, rank, nodes, ends_at)
        return self._command("join", *words, *([] if devices is None else [devices]))

    def take(self, directory: str, digest: str) -> list[str]:
        """The argv of what puts a snapshot of code, read from its input, where runners find it.

        Exit code 0 once it is there, also where it was; else what it writes to its error output says why.
        """
        return self._command("take", directory, digest)

    def trial(self, directory: str, driver: str) -> list[str]:
        """The argv of what tries to make a container, as JSON: see `container.trial`."""
        return self._command("trial", directory, driver)

    def warm(self, fd: int, *, idle_s: int = 0) -> list[str]:
        """The argv of a warm parent that serves the connected unix stream socket inherited as `fd`.

        A runner that has done its part waits `idle_s` for another; 0: it ends.
        """
        return self._command("warm", str(fd), str(idle_s))

    def session(self, fd: int) -> list[str]:
        """The argv of the far end of a session on the connected stream socket inherited as `fd`.

        The program goes on by itself; the process that was started ends at once.
        """
        return [self.python, *_LEAN, f"{self.package}/session", str(fd)]

    def session_on_streams(self, mark: str) -> list[str]:
        """The argv of the far end of a session on standard input and output, which begins by a line `mark`.

        It ends with the session.
        """
        return [self.python, *_LEAN, f"{self.package}/session", "-", mark]

    def _command(self, *words: str) -> list[str]:
        return [self.python, *_LEAN, self.package, *words]
