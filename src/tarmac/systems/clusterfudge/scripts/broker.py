"""The socket at which `tarmac launch` answers its script, in a thread. Called by that command.

The socket is in a directory that only the user can open; a process that can open it may launch as the user,
as with the server's socket.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any

Reply = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@contextmanager
def answering(reply: Reply) -> Iterator[Path]:
    """Answer with `reply` inside the context; yields the path of the socket."""
    directory = tempfile.mkdtemp(prefix="tarmac-launch-")
    path = Path(directory, "socket")
    try:
        with _Server(str(path), reply) as server:
            thread = threading.Thread(
                target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
            )
            thread.start()
            try:
                yield path
            finally:
                server.shutdown()
                thread.join()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, reply: Reply) -> None:
        super().__init__(path, _Handler)
        self.reply = reply


class _Handler(StreamRequestHandler):
    """Answers one request. A script that has ended meanwhile gets no answer."""

    server: _Server

    def handle(self) -> None:
        with suppress(OSError):
            question = json.loads(self.rfile.readline())
            self.wfile.write(json.dumps(self.server.reply(question)).encode(errors="surrogatepass"))


def script_environment(environment: Mapping[str, str], *, socket: Path, variable: str) -> dict[str, str]:
    """The script's variables: the socket of this process, and the stand-in first on PYTHONPATH."""
    standin = str(Path(__file__).parent / "standin")
    rest = environment.get("PYTHONPATH")
    return {
        **environment,
        variable: str(socket),
        "PYTHONPATH": os.pathsep.join([standin, rest] if rest else [standin]),
    }
