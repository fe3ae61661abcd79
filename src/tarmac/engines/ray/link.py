"""A connection to the agent of a node, without Ray: direct TCP, or through an ssh to one of the nodes.

Used by `node`, and by `sessions`. The other end is `node/host/agent.py`.
"""

import socket
import subprocess
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from tarmac.engines.hosts.ssh import Ssh
from tarmac.engines.ray.membership import Endpoint
from tarmac.model.errors import Unavailable
from tarmac.node.host.agent import CALLS
from tarmac.node.wire.connection import Connection, over_socket, run_over_socket
from tarmac.node.wire.opening import keep_watch, request

CONNECT_S = 3.0
TUNNEL_S = 30.0
"""Time for a login, and for the first answer through it."""

MARGIN_S = 5.0
"""Maximum transmission time of a request and its answer; after that the link is given up."""


def linked(
    endpoint: Endpoint, operations: Mapping[str, Callable[..., Any]], *, tunnel: Ssh | None = None
) -> Connection:
    """A link to an agent, which may call these operations. Raises Unavailable."""
    found = connected(endpoint, CALLS, tunnel=tunnel)
    link = over_socket(found, find=operations.__getitem__, margin_s=MARGIN_S)
    Thread(target=run_over_socket, args=(found, link), name="tarmac-link", daemon=True).start()
    return link


def connected(
    endpoint: Endpoint,
    service: str,
    *,
    tunnel: Ssh | None = None,
    within_s: float = CONNECT_S,
    **arguments: Any,
) -> socket.socket:
    """A connection to a service of an agent, which may take `within_s` to answer. Raises Unavailable."""
    where = f"{endpoint.address}:{endpoint.port}"
    try:
        if tunnel is None:
            connection = socket.create_connection((endpoint.address, endpoint.port), CONNECT_S)
        else:
            connection, within_s = _through(tunnel, endpoint), max(within_s, TUNNEL_S)
    except OSError as error:
        raise Unavailable(f"the agent at {where} cannot be reached: {_words(error)}") from None
    try:
        keep_watch(connection)
        connection.settimeout(within_s)
        request(connection, bytes.fromhex(endpoint.token), service, **arguments)
    except (OSError, ValueError, KeyError) as error:
        connection.close()
        raise Unavailable(f"the agent at {where} did not take the connection: {error}") from None
    connection.settimeout(None)
    return connection


def _through(tunnel: Ssh, endpoint: Endpoint) -> socket.socket:
    """A socket to an ssh that connects a node to the agent, and ends with the connection. Raises OSError."""
    *argv, dashes, target = tunnel.argv()
    host = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    argv += ["-W", f"{host}:{endpoint.port}", dashes, target]
    near, far = socket.socketpair()
    with far:
        ssh = subprocess.Popen(
            argv, stdin=far.fileno(), stdout=far.fileno(), stderr=subprocess.DEVNULL, start_new_session=True
        )
    Thread(target=ssh.wait, name="tarmac-tunnel", daemon=True).start()
    return near


def _words(error: OSError) -> str:
    return "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
