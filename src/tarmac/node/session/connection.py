"""A connection to a port in a worker's network namespace: a far end of sessions. Called by `serving`."""

from __future__ import annotations

import socket
from typing import Optional, Sequence

from tarmac.node.session import frames
from tarmac.node.session.far import Ending
from tarmac.node.session.surroundings import Surroundings

TIMEOUT_S = 10.0


class NotListening(Exception):
    """No process listens on that port."""


class Connection:
    """A connection. It ends after both sides have closed their streams."""

    def __init__(self, surroundings: Surroundings, addresses: Sequence[str], port: int) -> None:
        """Connect to the first of these addresses that answers. Raises NotListening, or OSError."""
        surroundings.enter_network()
        self._socket = _connected(addresses, port)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input: Optional[int] = self._socket.fileno()
        self.outputs = {self._socket.fileno(): frames.OUTPUT}

    def ending(self) -> Optional[Ending]:
        """The end of the connection, after all bytes are passed on in both directions."""
        return Ending(exit_code=0) if self.input is None and not self.outputs else None

    def resize(self, rows: int, columns: int) -> None:
        """Do nothing: a connection has no size."""

    def signal(self, number: int) -> None:
        """Do nothing: a connection takes no signals."""

    def close_input(self) -> None:
        """The near end has closed its stream."""
        self.input = None
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.outputs = {}  # the other side has closed the whole connection

    def close_output(self, handle: int) -> None:
        """The other side has closed its stream."""
        self.outputs.pop(handle, None)

    def hang_up(self) -> None:
        """Close the connection."""
        self._socket.close()


def _connected(addresses: Sequence[str], port: int) -> socket.socket:
    problem: Optional[OSError] = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=TIMEOUT_S)
        except OSError as error:
            problem = problem or error
    reason = problem.strerror or str(problem) if problem is not None else "it has no address"
    raise NotListening(f"nothing listens on port {port} there: {reason.lower()}")
