"""Sessions beside workers on the nodes of a Ray: each connects to the agent of the worker's node.

Called by `RayEngine`. The agent passes the connection to the far end, which outlives the agent.
"""

from __future__ import annotations

from tarmac.engines.attempts.view import AttemptView
from tarmac.engines.ray.link import connected
from tarmac.engines.ray.node import RayNode, Travels
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.ports import WorkerStatus
from tarmac.node.host import frames as messages
from tarmac.node.host.agent import SESSION, SESSION_LOST_S, keep_watch
from tarmac.node.host.sessions import START_TIMEOUT_S
from tarmac.node.session import frames


def open_session(place: RayNode, travels: Travels, view: AttemptView, worker: WorkerStatus) -> int:
    """As `OpensSessions` defines; `place` is the worker's node."""
    if worker.pid is None:
        raise Refused("the worker has not started")
    endpoint = place.endpoint
    if endpoint is None or not place.up:
        raise Unavailable(f"{place.name} cannot be reached", hint="tarmac nodes shows why")
    connection = connected(endpoint, who=SESSION)
    try:
        keep_watch(connection, lost_s=SESSION_LOST_S)
        connection.settimeout(START_TIMEOUT_S)
        connection.sendall(messages.pack(travels.installation))
        with connection.makefile("rb") as stream:
            answer = messages.read(stream)
        if answer is None or answer["problem"]:
            words = answer["problem"] if answer is not None else "its agent ended the connection"
            raise Unavailable(f"{place.name}: the session cannot be started: {words}")
        connection.settimeout(None)
        connection.sendall(frames.pack_document(frames.WORKER, pid=worker.pid, token=view.token))
    except (OSError, ValueError) as error:
        connection.close()
        raise Unavailable(f"{place.name}: the session cannot be started: {error}") from None
    except Unavailable:
        connection.close()
        raise
    return connection.detach()
