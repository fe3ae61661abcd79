"""The warm parent: a small process that forks runners, because a fresh Python costs more than a short run.

Started by engines (`starting.warm_command`) on a node that serves many short runs. It holds no state:
requests come over one connected unix stream socket, one line of JSON each, and the runners outlive it. It
ends when the other end of the socket is closed.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
from functools import partial
from typing import Iterator, NoReturn, Optional

from tarmac.node import detach, environment, namespaces, protocol, runner
from tarmac.node.namespaces import Apart, Way


def serve(fd: int) -> None:
    """Answer requests on the socket `fd` until it is closed."""
    channel = socket.socket(fileno=fd)
    detach.close_inherited(but=frozenset({fd}))
    os.set_inheritable(fd, False)
    detach.default_signals()
    way = namespaces.find_way()
    environment.account()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # an error tells as well that our server left
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the runners
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for whoever sits in front of the server
    gc.collect()
    gc.freeze()  # what is there now is shared with every runner: leave its pages alone
    try:
        for request in _lines(channel):
            channel.sendall(json.dumps(_answer(request, channel, way)).encode() + b"\n")
    except ConnectionError:
        pass  # closed while we answered: as good an end as any


def _lines(channel: socket.socket) -> Iterator[bytes]:
    """The requests, each without its newline; a line too long is given in part, and refused."""
    waiting = b""
    while piece := channel.recv(65536):
        waiting += piece
        while b"\n" in waiting:
            line, _, waiting = waiting.partition(b"\n")
            yield line
        if len(waiting) > protocol.LONGEST_REQUEST_BYTES:
            yield waiting
            waiting = b""


def _answer(request: bytes, channel: socket.socket, way: Way) -> dict[str, object]:
    try:
        told = json.loads(request)
        directory, node, secrets = told["directory"], told["node"], told.get("secrets") or {}
        if not (isinstance(directory, str) and isinstance(node, str) and isinstance(secrets, dict)):
            raise TypeError("directory and node are text, secrets a mapping")
    except (ValueError, KeyError, TypeError) as error:
        return {"error": f"not a request: {type(error).__name__}: {error}"}
    try:
        pid = namespaces.fork(way, partial(_become_runner, channel, directory, node, secrets))
    except OSError as error:
        return {"error": f"no runner can be forked: {error}"}
    return {"pid": pid}


def _become_runner(
    channel: socket.socket, directory: str, node: str, secrets: dict[str, str], apart: Optional[Apart]
) -> NoReturn:
    """In the child: let go of everything that is the parent's, and run the attempt."""
    try:
        channel.close()
        detach.own_session()
        detach.drop_stdio()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.chdir("/")
        runner.run_attempt(directory, node, apart, secrets)
    finally:
        os._exit(0)
