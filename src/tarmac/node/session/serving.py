"""The far end of a session, as a program: it runs beside the worker and ends with its connection.

Called by `__main__`. Engines start it on the worker's node (`starting.Installation.session`), connected to
the server, which passes frames on to a person's program (see `frames`). OPEN defines the session:

    {"kind": "command", "argv": [...], "stdin": true, "terminal": {"rows", "columns", "name"} or null}
    {"kind": "connection", "addresses": [...], "port": 8888}
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, Optional

from tarmac.node.processes import detach
from tarmac.node.session import frames
from tarmac.node.session.command import CannotEnter, Command, Terminal
from tarmac.node.session.connection import Connection, NotListening
from tarmac.node.session.far import FarEnd
from tarmac.node.session.relay import Relay, first_frames
from tarmac.node.session.surroundings import Gone, Surroundings, surroundings_of

_GONE = "the worker has ended"


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
        except (CannotEnter, Gone, NotListening, OSError) as problem:
            channel.sendall(_refusal(problem))
            return
        channel.sendall(frames.pack_document(frames.OPENED, notices=notices))
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
    if not surroundings.closed_groups:
        return []
    return [
        f"the worker's limits do not hold this command: {surroundings.closed_groups[0]} may not be joined"
    ]


def _refusal(problem: Exception) -> bytes:
    if isinstance(problem, NotListening):
        return frames.pack_document(frames.FAILED, message=str(problem), hint=None)
    if isinstance(problem, Gone):
        return frames.pack_document(frames.FAILED, message=_GONE, hint=None)
    text = f"the surroundings of the worker cannot be entered: {problem}"
    return frames.pack_document(frames.FAILED, message=text, hint=None)
