"""`tarmac port-forward`: forward ports of this machine to ports beside a worker. Also used by jupyter."""

import select
import socket
import sys
from contextlib import suppress
from threading import Thread
from typing import Any

import click

from tarmac.cli.commands.exec import worker_options
from tarmac.cli.dialogue import connect, remark
from tarmac.cli.options import run_argument
from tarmac.cli.views.messages import state_of
from tarmac.client import Client
from tarmac.client.sessions import ClientSession
from tarmac.model.errors import Refused, TarmacError
from tarmac.node.session import frames

HERE = "127.0.0.1"
"""The loopback address: other machines cannot connect."""

LARGEST_PORT = 65_535


def ports_of(text: str) -> tuple[int, int]:
    """`PORT` or `LOCAL:PORT`, as two numbers."""
    local, colon, port = text.rpartition(":")
    numbers = (local if colon else port, port)
    if not all(number.isdecimal() and int(number) <= LARGEST_PORT for number in numbers) or int(port) == 0:
        raise click.BadParameter(f"{text!r} is not PORT or LOCAL:PORT, numbers up to {LARGEST_PORT}")
    return int(numbers[0]), int(port)


@click.command("port-forward")
@run_argument
@click.argument("ports", nargs=-1, required=True, type=ports_of, metavar="[LOCAL:]PORT...")
@worker_options
def port_forward(*, run: str, ports: tuple[tuple[int, int], ...], **worker: Any) -> None:
    """Reach ports beside a worker of a run from this machine, until Ctrl-C or the end of the run.

    LOCAL is the port here, the same as there if left out, any free one if 0. Only this machine can connect.

    \b
    tarmac port-forward digits 6006
    tarmac port-forward digits 9000:8888
    """
    client = connect()
    record = client.run(run)
    if record.state == "ended":
        raise Refused(f"run {record.name} ({record.id}) has ended: there is nothing to connect to")
    forwards = [Forward(client, local=local, instead=f"LOCAL:{port}") for local, port in ports]
    for forward, (_, port) in zip(forwards, ports, strict=True):
        forward.start(record.id, port, **worker)
        remark(f"http://{HERE}:{forward.local} leads to port {port} of {record.name} ({record.id})")
    ended = client.wait(record.id)
    remark(f"{ended.name} ({ended.id}) is {state_of(ended)}")
    sys.exit(0)


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

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                Thread(target=self._connected, args=(connection,), daemon=True).start()

    def _connected(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the ends decide what waits
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
