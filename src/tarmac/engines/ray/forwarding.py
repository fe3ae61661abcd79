"""Forwards a loopback address of the server to programs on a node: the gateway of another system.

Started by `node` for every node that has another loopback. The other end is `node/host/forwarding.py`, which
accepts connections; each has a connection of its own to the agent, and continues to a unix socket of the
server. The server does not mistake it for a program of its own user on this machine.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event, Thread

from tarmac.engines.hosts.host import Reach
from tarmac.engines.hosts.installing import Forward
from tarmac.engines.ray.link import connected
from tarmac.engines.ray.membership import Endpoint
from tarmac.model.errors import Unavailable
from tarmac.node.host.agent import FORWARD
from tarmac.node.host.forwarding import Splicer
from tarmac.node.kernel import sockets

WAIT_S = 10.0
"""How long one call waits for connections."""

MARGIN_S = 20.0
AGAIN_S = 1.0
BEGIN_S = 5.0
MOST_CONNECTIONS = 256
"""Maximum number of simultaneous connections of one node."""

THREADS = 4


class Forwarding:
    """The service for one node; `endpoint` is the current address of its agent.

    `close` ends it, with all its connections.
    """

    def __init__(self, node: Reach, forward: Forward, endpoint: Callable[[], Endpoint | None]) -> None:
        self.problem = ""
        """Why programs there do not reach the address; empty while they do."""
        self._node = node
        self._forward = forward
        self._endpoint = endpoint
        self._splicer = Splicer()
        self._over = Event()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="forward")
        self._thread = Thread(target=self._run, name="forward", daemon=True)

    def start(self) -> None:
        """Start the service."""
        self._thread.start()

    def close(self) -> None:
        """End the service."""
        self._over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._splicer.close()

    def _run(self) -> None:
        """Accept connections, until the service ends or the node proves to share our loopback."""
        forward = self._forward
        while not self._over.is_set():
            try:
                numbers = self._node.call(
                    "forward_take",
                    timeout_s=WAIT_S + MARGIN_S,
                    address=forward.address,
                    port=forward.port,
                    of=forward.loopback,
                    wait_s=WAIT_S,
                )
            except OSError as error:
                words = os.strerror(error.errno) if error.errno else str(error)
                self.problem = f"{forward.address}:{forward.port}: {words}"
            except (Unavailable, ValueError):
                pass  # the node is unreachable, which is already shown
            else:
                self.problem = ""
                if numbers is None:
                    return
                for number in numbers:
                    with suppress(RuntimeError):  # closed meanwhile
                        self._pool.submit(self._carry, number)
                continue
            self._over.wait(AGAIN_S)

    def _carry(self, number: int) -> None:
        """Carry a connection; the other end closes one that fails, after a time."""
        endpoint = self._endpoint()
        if endpoint is None or len(self._splicer) >= MOST_CONNECTIONS:
            return
        with suppress(Unavailable, OSError):
            far = connected(endpoint, FORWARD, number=number)
            try:
                near = sockets.connect(str(self._forward.socket), timeout_s=BEGIN_S)
            except OSError:
                far.close()
                raise
            self._splicer.add(far, near)
