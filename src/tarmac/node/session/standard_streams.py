"""The far end of a session without a socket: on standard input and output. Called by `__main__`.

It runs below programs that pass streams on, such as `srun` and `ssh`. A mark separates the session from the
output of those programs and of shells: a line that only the caller knows.
"""

from __future__ import annotations

import os
import socket
from threading import Thread
from typing import NoReturn

from tarmac.node.session.serving import serve

_PIECE_BYTES = 1 << 16


def serve_standard_streams(mark: str) -> NoReturn:
    """Print the mark, and serve a session until it has ended in this process."""
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
        while data := near.recv(_PIECE_BYTES):
            _write(1, data)
    finally:
        os._exit(0)  # closing the streams ends the session for the near end


def _pass_on_input(near: socket.socket) -> None:
    try:
        while data := os.read(0, _PIECE_BYTES):
            near.sendall(data)
    finally:
        near.shutdown(socket.SHUT_RDWR)


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
