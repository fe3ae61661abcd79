"""Finds the node of an attempt whose disk has a given file. Called by `RayEngine`."""

from __future__ import annotations

from tarmac.engines.attempts.view import AttemptView
from tarmac.node.attempt import protocol

_SETUP = f"{protocol.LOGS}/setup."


def place_of(view: AttemptView, path: str) -> str:
    """The node that wrote the file; for files that several may have written, that of rank 0."""
    names = [node.node for node in view.nodes]
    first, _, rest = path.partition("/")
    if first == protocol.NODES and rest.partition("/")[0] in names:
        return rest.partition("/")[0]
    if path.startswith(_SETUP):
        return next((name for name in names if path[len(_SETUP) :].startswith(f"{name}.")), names[0])
    stem = path.rpartition(".")[0]
    for node in view.nodes:
        if any(worker.log.rpartition(".")[0] == stem for worker in node.workers.values()):
            return node.node
    return names[0]
