"""Hook: find the address and port of the rendezvous on nodes that a cluster granted late. Called by `runner`.

The node of rank 0 finds a free port and writes it into the attempt directory; the others wait for it. Without
a shared directory the port is computed from the attempt's id; if that port is taken, the attempt is retried
under another id.
"""

from __future__ import annotations

import json

from tarmac.node.attempt import protocol
from tarmac.node.attempt.document import read_document
from tarmac.node.files import untrusted
from tarmac.node.kernel import ports
from tarmac.node.leave import notify_nodes, wait_for
from tarmac.node.noderun import NodeRun


def settle_rendezvous(run: NodeRun) -> None:
    """Fill in the addresses, port and devices that attempt.json leaves open; raises OSError or Leave."""
    granted = run.granted
    if granted is None:
        return
    if len(granted.names) != len(run.document.nodes):
        needed = len(run.document.nodes)
        raise OSError(f"the attempt needs {needed} nodes, and was given {len(granted.names)}")
    late = {**granted.addresses_by_text(), protocol.LATE_PORT: str(_port(run))}
    document = read_document(run.attempt.description, late)
    run.replace_placeholders(document, granted.with_devices(document.part(run.part.node)))


def _port(run: NodeRun) -> int:
    first, path = run.part.rank == 0, run.attempt.meeting
    if not run.document.settings.shared_directory:
        port = ports.derived(run.document.attempt_id)
        if first and not ports.is_free(port):
            raise OSError(f"port {port}, which the attempt needs for its rendezvous, is taken")
        return port
    if first:
        port = ports.find_free()
        untrusted.replace(path, json.dumps({"port": port}).encode())
        notify_nodes(run, path)
        return port
    wait_for(run, path)
    return int(untrusted.read_object(path)["port"])
