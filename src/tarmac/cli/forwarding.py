"""Forwards a port of this machine to a port beside a worker. Used by port-forward and jupyter."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from tarmac.cli.output import remark
from tarmac.model.errors import TarmacError
from tarmac.node.session import frames

if TYPE_CHECKING:
    from tarmac.client import Client
    from tarmac.client.session_calls import ClientSession

HERE = "127.0.0.1"
"""The loopback address: other machines cannot connect."""


class Forward:
    """A listener on this machine only; each connection opens its own session."""

    def __init__(self, client: Client, *, local: int, instead: str) -> None:
        """Listen at `local` (0: any free port). Raises ClickException if that is in use."""
        self._client = client
        self._refusal: str | None = None
        try:
            self._listener = socket.create_server((HERE, local))
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            raise click.ClickException(
                f"port {local} of this machine cannot be listened at ({reason}); give another as {instead}"
            ) from None
        self.local: int = self._listener.getsockname()[1]

    def start(self, run: str, port: int, **worker: Any) -> None:
        """Forward connections to a port beside a worker, in threads that end with this program."""
        self._target = {"reference": run, "port": port, **worker}
        Thread(target=self._serve, name=f"forward-{self.local}", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                Thread(target=self._connected, args=(connection,), daemon=True).start()

    def _connected(self, connection: socket.socket) -> None:
        with connection:
            try:
                session = self._client.open_session(**self._target)
            except (TarmacError, OSError) as refusal:
                if str(refusal) != self._refusal:  # browsers retry often
                    self._refusal = str(refusal)
                    remark(str(refusal))
                return
            self._refusal = None
            try:
                _pass_on(connection, session)
            finally:
                session.close()


def _pass_on(connection: socket.socket, session: ClientSession) -> None:
    """Pass data in both directions, until both sides have finished or one has disconnected."""
    back = Thread(target=_pass_back, args=(connection, session), daemon=True)
    back.start()
    with suppress(OSError):
        while True:
            ready, _, _ = select.select([connection], [], [], frames.PING_S)
            if not ready:
                session.send(frames.PING)
                continue
            data = connection.recv(frames.PIECE_BYTES)
            session.write(data)
            if not data:
                break
    back.join()


def _pass_back(connection: socket.socket, session: ClientSession) -> None:
    try:
        for frame in session.frames():
            if frame.kind == frames.OUTPUT and frame.content:
                connection.sendall(frame.content)
            elif frame.kind == frames.OUTPUT:
                connection.shutdown(socket.SHUT_WR)
    except (TarmacError, OSError, ValueError):
        with suppress(OSError):  # wakes the other thread
            connection.shutdown(socket.SHUT_RDWR)
