"""The far end of a session, as a program: it runs beside the worker and ends with its connection.

Called by `__main__`. Engines start it on the worker's node (`starting.Installation.session`), connected to
the server, which passes frames on to a person's program (see `frames`). OPEN defines the session:

    {"kind": "command", "argv": [...], "stdin": true, "terminal": {"rows", "columns", "name"} or null}
    {"kind": "connection", "addresses": [...], "port": 8888}

A connection is to a port in the worker's network namespace.
"""

from __future__ import annotations

import os
import signal
import socket
from threading import Thread
from typing import Any, NoReturn, Optional, Sequence

from tarmac.node.processes import detach
from tarmac.node.session import frames
from tarmac.node.session.command import Command, Terminal
from tarmac.node.session.relay import Ending, FarEnd, Relay, first_frames
from tarmac.node.session.surroundings import Refused, Surroundings, surroundings_of
from tarmac.node.wire.frames import pack_document

TIMEOUT_S = 10.0
PIECE_BYTES = 1 << 16


def serve(fd: int) -> None:
    """Serve the session on the connected stream socket `fd`; the starter continues at once."""
    channel = socket.socket(fileno=fd)
    detach.close_inherited(but=frozenset({fd}))
    channel.set_inheritable(False)
    if os.fork():
        os._exit(0)
    detach.own_session()
    detach.default_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        first = first_frames(channel, 2)
        if first is None:
            return
        (worker, opening), splitter = first
        try:
            surroundings, far, notices = _begin(worker.document(), opening.document())
        except (Refused, OSError) as problem:
            text = f"the surroundings of the worker cannot be entered: {problem}"
            message = str(problem) if isinstance(problem, Refused) else text
            channel.sendall(pack_document(frames.FAILED, message=message, hint=None))
            return
        channel.sendall(pack_document(frames.OPENED, notices=notices))
        Relay(channel, far, surroundings.worker_lives, splitter).run()
    except (ConnectionError, ValueError, KeyError, TypeError):
        return  # no near end, or not one of tarmac
    finally:
        channel.close()


def _begin(worker: dict[str, Any], opening: dict[str, Any]) -> tuple[Surroundings, FarEnd, list[str]]:
    surroundings = surroundings_of(int(worker["pid"]), str(worker["token"]))
    far: FarEnd
    if opening["kind"] == "connection":
        addresses = [str(address) for address in opening["addresses"]]
        return surroundings, Connection(surroundings, addresses, int(opening["port"])), []
    argv = [str(word) for word in opening["argv"]]
    terminal = _terminal(opening.get("terminal"))
    far = Command(surroundings, argv, terminal=terminal, stdin=bool(opening.get("stdin")))
    return surroundings, far, _notices(surroundings)


def _terminal(described: Optional[dict[str, Any]]) -> Optional[Terminal]:
    if described is None:
        return None
    return Terminal(int(described["rows"]), int(described["columns"]), str(described.get("name", "")))


def _notices(surroundings: Surroundings) -> list[str]:
    """The limitations of this session."""
    groups = surroundings.closed_groups[:1]
    return [f"the worker's limits do not hold this command: {group} may not be joined" for group in groups]


class Connection(FarEnd):
    """A connection. It ends after both sides have closed their streams."""

    def __init__(self, surroundings: Surroundings, addresses: Sequence[str], port: int) -> None:
        """Connect to the first of these addresses that answers. Raises Refused, or OSError."""
        surroundings.enter_network()
        self._socket = _connected(addresses, port)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input: Optional[int] = self._socket.fileno()
        self.outputs = {self._socket.fileno(): frames.OUTPUT}

    def ending(self) -> Optional[Ending]:
        """The end of the connection, after all bytes are passed on in both directions."""
        return Ending(exit_code=0) if self.input is None and not self.outputs else None

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
    raise Refused(f"nothing listens on port {port} there: {reason.lower()}")


def serve_standard_streams(mark: str) -> NoReturn:
    """Serve a session on standard input and output until it has ended, in this process.

    It runs below programs that pass streams on, such as `srun` and `ssh`. The mark separates the session from
    the output of those programs and of shells: a line that only the caller knows.
    """
    near, far = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        near.close()
        serve(far.detach())
        os._exit(0)
    far.close()
    os.waitpid(pid, 0)
    try:
        _write(1, f"\n{mark}\n".encode())
        Thread(target=_pass_on_input, args=(near,), daemon=True).start()
        while data := near.recv(PIECE_BYTES):
            _write(1, data)
    finally:
        os._exit(0)  # closing the streams ends the session for the near end


def _pass_on_input(near: socket.socket) -> None:
    try:
        while data := os.read(0, PIECE_BYTES):
            near.sendall(data)
    finally:
        near.shutdown(socket.SHUT_RDWR)


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
