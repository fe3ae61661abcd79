"""A connection to the agent of a node: direct TCP, without Ray.

Used by `node`, and by `sessions`. The other end is `node/host/agent.py`.
"""

import socket
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from tarmac.engines.ray.membership import Endpoint
from tarmac.model.errors import Unavailable
from tarmac.node.host.agent import CALLS
from tarmac.node.wire.connection import Connection, over_socket, run_over_socket
from tarmac.node.wire.opening import keep_watch, request

CONNECT_S = 3.0
MARGIN_S = 5.0
"""Maximum transmission time of a request and its answer; after that the link is given up."""


def linked(endpoint: Endpoint, operations: Mapping[str, Callable[..., Any]]) -> Connection:
    """A link to an agent, which may call these operations. Raises Unavailable."""
    found = connected(endpoint, CALLS)
    link = over_socket(found, find=operations.__getitem__, margin_s=MARGIN_S)
    Thread(target=run_over_socket, args=(found, link), name="tarmac-link", daemon=True).start()
    return link


def connected(
    endpoint: Endpoint, service: str, *, within_s: float = CONNECT_S, **arguments: Any
) -> socket.socket:
    """A connection to a service of an agent, which may take `within_s` to answer. Raises Unavailable."""
    where = f"{endpoint.address}:{endpoint.port}"
    try:
        connection = socket.create_connection((endpoint.address, endpoint.port), CONNECT_S)
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


def _words(error: OSError) -> str:
    return "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
