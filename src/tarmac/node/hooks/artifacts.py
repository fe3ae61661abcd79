"""Hooks around the workers: artifact directories are there before, and hold nothing half-written after.

Called by `runner`. What a process was writing through the SDK's `checkpoint()` when it was ended is rubbish:
its own node clears it away afterwards, a later attempt what a lost node left.
"""

from __future__ import annotations

import os
import shutil
from typing import Callable

from tarmac.node import protocol
from tarmac.node.noderun import NodeRun


def artifacts_in(run: NodeRun) -> None:
    """Make the directories, name them to the workers, clear away what earlier attempts left unfinished."""
    for kind, variables in protocol.ARTIFACT_VARIABLES.items():
        directory = run.part.artifacts.get(kind)
        if directory is None:
            continue
        os.makedirs(directory, exist_ok=True)
        run.node_env.update(dict.fromkeys(variables, directory))
    this_attempt = protocol.unfinished_prefix(run.part.number)
    _clear(run, lambda name: not name.startswith(this_attempt))


def artifacts_out(run: NodeRun) -> None:
    """Clear away what this node left unfinished: nothing here writes any more."""
    mine = protocol.unfinished_prefix(run.part.number, run.part.rank)
    _clear(run, lambda name: name.startswith(mine))


def _clear(run: NodeRun, rubbish: Callable[[str], bool]) -> None:
    directory = run.part.artifacts.get("checkpoint")
    if directory is None:
        return
    for name in os.listdir(directory):
        if name.startswith(protocol.UNFINISHED) and rubbish(name):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
