"""First hook: claim this node's part of the attempt, or find that it is taken. Called by `runner`."""

from __future__ import annotations

import os
from typing import Optional

from tarmac.node.attempt import claims
from tarmac.node.attempt.document import Launch
from tarmac.node.attempt.events import EventLog
from tarmac.node.attempt.granted import GrantedNode
from tarmac.node.attempt.paths import AttemptPaths, make_directory
from tarmac.node.kernel import namespaces, procfs
from tarmac.node.kernel.namespaces import ProcessNamespace
from tarmac.node.noderun import NodeRun


def claim(
    document: Launch,
    node_name: str,
    attempt: AttemptPaths,
    namespace: Optional[ProcessNamespace],
    granted: Optional[GrantedNode] = None,
) -> Optional[NodeRun]:
    """The part to run; None if it is claimed or fenced: then this runner must exit without a trace."""
    node = attempt.node(node_name)
    if os.path.exists(node.claim):
        return None
    pid, name = os.getpid(), ""
    if namespace is not None:
        pid, name = namespace.pid, f"{namespaces.NAME}-{os.urandom(4).hex()}"
        procfs.rename_self(name)
    if not claims.take(node, document.token, pid=pid, name=name):
        give_up(namespace)
        return None
    events = EventLog(node.events)
    events.notify_at(document.settings.notify, document.attempt_id)
    events.append("claimed", pid=pid, **({"name": granted.name} if granted is not None else {}))
    make_directory(attempt.logs)
    return NodeRun(document, document.part(node_name), attempt, events, namespace=namespace, granted=granted)


def give_up(namespace: Optional[ProcessNamespace]) -> None:
    """Remove the name that proves that the claim is alive: the last event marks the end."""
    if namespace is not None:
        procfs.rename_self(namespaces.NAME)
