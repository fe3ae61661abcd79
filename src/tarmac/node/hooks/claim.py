"""First hooks: claim this node's part of the attempt, and complete what a cluster granted late.

Called by `runner`. A claim may be taken already. For the rendezvous on nodes that a cluster granted late, the
node of rank 0 finds a free port and writes it into the attempt directory; the others wait for it. Without a
shared directory the port is computed from the attempt's id; if that port is taken, the attempt is retried
under another id.
"""

from __future__ import annotations

import json
import os
from typing import Optional

from tarmac.node.attempt import claims, protocol
from tarmac.node.attempt.document import GrantedNode, Launch, read_document
from tarmac.node.attempt.events import EventLog
from tarmac.node.attempt.paths import AttemptPaths, make_directory
from tarmac.node.files import untrusted
from tarmac.node.kernel import namespaces, procfs, sockets
from tarmac.node.kernel.namespaces import ProcessNamespace
from tarmac.node.leave import notify_nodes, wait_for
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
    events = EventLog(node.events, notify=document.settings.notify, attempt_id=document.attempt_id)
    events.append("claimed", pid=pid, **({"name": granted.name} if granted is not None else {}))
    make_directory(attempt.logs)
    return NodeRun(document, document.part(node_name), attempt, events, namespace=namespace, granted=granted)


def give_up(namespace: Optional[ProcessNamespace]) -> None:
    """Remove the name that proves that the claim is alive: the last event marks the end."""
    if namespace is not None:
        procfs.rename_self(namespaces.NAME)


def settle_rendezvous(run: NodeRun) -> None:
    """Fill in the addresses, port and devices that attempt.json leaves open; raises OSError or Leave."""
    granted = run.granted
    if granted is None:
        return
    if len(granted.names) != len(run.document.nodes):
        needed = len(run.document.nodes)
        raise OSError(f"the attempt needs {needed} nodes, and was given {len(granted.names)}")
    late = {protocol.late_address(rank): address for rank, address in enumerate(granted.addresses)}
    late[protocol.LATE_PORT] = str(_port(run))
    document = read_document(run.attempt.description, late)
    run.document, run.part = document, granted.with_devices(document.part(run.part.node))
    for worker, part in zip(run.workers, run.part.workers):  # noqa: B905 - the same workers
        worker.part = part


def _port(run: NodeRun) -> int:
    first, path = run.part.rank == 0, run.attempt.meeting
    if not run.document.settings.shared_directory:
        port = sockets.derived_port(run.document.attempt_id)
        if first and not sockets.is_free_port(port):
            raise OSError(f"port {port}, which the attempt needs for its rendezvous, is taken")
        return port
    if first:
        port = sockets.find_free_port()
        untrusted.replace(path, json.dumps({"port": port}).encode())
        notify_nodes(run, path)
        return port
    wait_for(run, path)
    return int(untrusted.read_object(path)["port"])
