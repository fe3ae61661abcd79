"""The rendezvous of Horovod's processes: each writes its address and reads those of the others.

Called by `__main__`, before the command of rank 0. Keys in scopes over HTTP, like the server of `horovodrun`.
A rank that has found all others of a scope sends DELETE; after all have, the scope is empty again, as a
process may start Horovod again.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Dict, List, Optional, Set, Tuple

LONGEST_VALUE_BYTES = 1 << 20
_LOOK_S = 1.0
_WAITING = 1024


def execute(address: Tuple[str, int], script: List[str]) -> None:
    """Become the command, with a server beside it that ends with it; raises OSError."""
    server = _Server(address, _Handler)
    command = os.getpid()
    if os.fork():
        server.socket.close()
        os.execvp(script[0], script)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ended = threading.Event()
    while os.getppid() == command:
        ended.wait(_LOOK_S)
    os._exit(0)


class _Server(ThreadingTCPServer):
    """The values by scope and key, and the ranks of a scope that have found all others.

    Not an HTTPServer, which resolves the name of the machine: that may take seconds.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = _WAITING
    """Room for all ranks, which connect at once."""

    def __init__(self, address: Tuple[str, int], handler: "type[BaseHTTPRequestHandler]") -> None:
        self._lock = threading.Lock()
        self._values: Dict[str, Dict[str, bytes]] = {}
        self._done: Dict[str, Set[str]] = {}
        super().__init__(address, handler)

    def get(self, scope: str, key: str) -> Optional[bytes]:
        with self._lock:
            return self._values.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> None:
        with self._lock:
            self._values.setdefault(scope, {})[key] = value

    def done(self, scope: str, key: str) -> None:
        """Note that a rank no longer needs the scope. The keys that are numbers are its ranks."""
        with self._lock:
            done = self._done.setdefault(scope, set())
            done.add(key)
            if done >= {name for name in self._values.get(scope, {}) if name.isdigit()}:
                self._values.pop(scope, None)
                del self._done[scope]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        place = self._place()
        value = self.server.get(*place) if place is not None else None
        self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        place, length = self._place(), self.headers.get("Content-Length", "")
        if place is None or not length.isdigit() or int(length) > LONGEST_VALUE_BYTES:
            self._answer(400)
            return
        self.server.put(*place, self.rfile.read(int(length)))
        self._answer(200)

    def do_DELETE(self) -> None:
        place = self._place()
        if place is not None:
            self.server.done(*place)
        self._answer(400 if place is None else 200)

    def _place(self) -> Optional[Tuple[str, str]]:
        _, _, path = self.path.partition("/")
        scope, separator, key = path.partition("/")
        return (scope, key) if separator and key else None

    def _answer(self, status: int, body: bytes = b"") -> None:
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Omit requests from the log of the run."""
