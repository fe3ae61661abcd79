"""Finds out whether the previous attempt ended without a record: its runner or its machine was killed.

No runner listed its torn checkpoint files or stored its last changes: the next attempt that uses its
directories does both. Called by the hooks `artifacts` and `pre_post_commands`, and by the sidecar.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Sequence

from tarmac.node.attempt.paths import AttemptPaths, NodePaths
from tarmac.node.files import untrusted

_FIRST_BYTES = 64 * 1024
_LAST_BYTES = 4096
_STARTED, _ENDED = b'"worker_started"', b'"ended"'


class Lost(NamedTuple):
    """An attempt without an end, and the last sign of life of its runner."""

    number: int
    at: float


def lost_before(attempt: AttemptPaths, number: int, nodes: Optional[Sequence[str]] = None) -> Optional[Lost]:
    """The last attempt before `number` whose workers started on these nodes, if it is a lost one.

    `nodes` None: on any. An attempt whose workers never started has changed no directory.
    """
    for earlier in range(number - 1, 0, -1):
        paths = AttemptPaths(os.path.join(os.path.dirname(attempt.directory), str(earlier)))
        parts = [paths.node(name) for name in (nodes or paths.node_names())]
        started = [part for part in parts if _has_started(part)]
        if started:
            signs = [_last_sign(part) for part in started if not has_ended(part)]
            return Lost(earlier, min(signs)) if signs else None
    return None


def has_ended(node: NodePaths) -> bool:
    """Whether a runner has written the event `ended`."""
    try:
        end, _ = untrusted.last_bytes(node.events, _LAST_BYTES)
        return _ENDED in end.rsplit(b"\n", 2)[-2]
    except (OSError, IndexError):
        return False


def _has_started(node: NodePaths) -> bool:
    try:
        return _STARTED in untrusted.first_bytes(node.events, _FIRST_BYTES)
    except OSError:
        return False


def _last_sign(node: NodePaths) -> float:
    return max(os.lstat(path).st_mtime for path in (node.heartbeat, node.events) if os.path.lexists(path))
