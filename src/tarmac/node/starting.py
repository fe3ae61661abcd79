"""How to start a runner or a warm parent: the command lines, and where the SDK lies.

Called by engines. Both commands run by path, so `node` may have been copied to a machine without tarmac.
"""

from __future__ import annotations

from pathlib import Path
from typing import Optional

NODE_DIRECTORY = Path(__file__).resolve().parent
"""This package: what an engine copies to another machine (as .../tarmac/node)."""

SDK_DIRECTORY = NODE_DIRECTORY / "shim"
"""What `sdk` in attempt.json names: on PYTHONPATH it makes `import tarmac` work."""

# Isolated and without site: the runner needs the standard library alone, and starts in a third of the time.
_LEAN = ("-I", "-S")


def runner_command(python: str, directory: str, node: str) -> list[str]:
    """The argv of a runner for one node of an attempt; it runs until the node's part has ended."""
    return [python, *_LEAN, str(NODE_DIRECTORY), "run", directory, node]


def join_command(
    python: str, directory: str, rank: str, nodes: str, devices: Optional[str] = None
) -> list[str]:
    """The same on a node that a cluster with a queue of its own has given, where that is known (`granted`).

    The words may be variables of a shell that a launcher starts there.
    """
    given = [] if devices is None else [devices]
    return [python, *_LEAN, str(NODE_DIRECTORY), "join", directory, rank, nodes, *given]


def warm_command(python: str, fd: int, *, idle_s: int = 0) -> list[str]:
    """The argv of a warm parent that serves the connected unix stream socket inherited as `fd`.

    A runner that has done its part waits `idle_s` for another; 0: it ends.
    """
    return [python, *_LEAN, str(NODE_DIRECTORY), "warm", str(fd), str(idle_s)]
