"""First hook: own this node's part of the attempt, or know that it is somebody else's. Called by `runner`."""

from __future__ import annotations

import os
from typing import Optional

from tarmac.node import claims
from tarmac.node.attempt import AttemptPart
from tarmac.node.events import EventLog
from tarmac.node.namespaces import Apart
from tarmac.node.noderun import NodeRun
from tarmac.node.paths import AttemptPaths


def claim(part: AttemptPart, attempt: AttemptPaths, apart: Optional[Apart]) -> Optional[NodeRun]:
    """The part to run, or None: it is claimed, or fenced, and this runner must leave without a trace."""
    node = attempt.node(part.node)
    pid = os.getpid() if apart is None else apart.pid
    if os.path.exists(node.claim) or not claims.take(node, part.token, pid=pid):
        return None
    events = EventLog(node.events)
    events.tell(part.notify, part.attempt_id)
    events.append("claimed", pid=pid)
    os.makedirs(attempt.logs, exist_ok=True)
    return NodeRun(part, attempt, node, events, apart)
