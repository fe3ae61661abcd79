"""A cable between a server and an agent: while it is cut, what was sent stays under way."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Event, Thread


class Cable:
    """Carries connections from a port of its own to the target."""

    def __init__(self, address: str, port: int) -> None:
        self.target = address, port
        self._whole = Event()
        self._whole.set()
        self._listening = socket.create_server((address, 0))
        self.port: int = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on nothing comes through, and neither end is told."""
        self._whole.clear()

    def mend(self) -> None:
        """What was under way arrives, and all that follows."""
        self._whole.set()

    def close(self) -> None:
        """Take no more connections."""
        self.mend()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        with near, suppress(OSError), socket.create_connection(self.target) as far:
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a piece waits for no other
            back = Thread(target=self._carry, args=(far, near), daemon=True)
            back.start()
            self._carry(near, far)
            back.join()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._whole.wait()
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
