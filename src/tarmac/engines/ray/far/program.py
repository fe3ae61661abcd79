"""The bridge's program beside a Ray: performs operations until its input ends. Started by `loading`.

Ray is imported, and connected, only on request, so that the caller can limit the time.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from threading import Lock
from typing import Any, BinaryIO

from tarmac.node.wire.connection import Connection

PROBE_S = 5.0


def serve(stream: BinaryIO, output: int) -> None:
    """Serve the operations of `Program` until the stream ends."""
    sys.path[:] = [path for path in sys.path if path]  # without the current directory
    program = Program()
    Connection(output, find=program.find, margin_s=None, accepted=True).run(stream)
    os._exit(0)


class Program:
    """The available operations: `join` first, then those of a `Driver`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._driver: Any | None = None

    def find(self, name: str) -> Callable[..., Any]:
        """The operation of this name. Raises ValueError."""
        if name == "join":
            return self.join
        if name not in ("about", "members", "endpoint", "reserve", "release") or self._driver is None:
            raise ValueError(f"there is no operation {name!r} now")
        return self._checked(getattr(self._driver, name))

    def join(self, address: str, token: str | None, key: str) -> dict[str, Any]:
        """Connect to the Ray with this head address; return its versions. Raises OSError and ValueError."""
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), PROBE_S).close()
        if token is not None:
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ["RAY_AUTH_TOKEN"] = token
        try:
            from tarmac.engines.ray.far.driver import Driver  # noqa: PLC0415 - it imports ray
        except ImportError as error:
            raise ValueError(f"{sys.executable} has no Ray: {error}") from None

        def connect() -> dict[str, Any]:
            with self._lock:
                if self._driver is None:
                    self._driver = Driver(address, key)
            return dict(self._driver.about())

        return dict(self._checked(connect)())

    def _checked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with errors of Ray converted to errors that can be sent."""

        def call(**arguments: Any) -> Any:
            try:
                return function(**arguments)
            except (OSError, ValueError):
                raise
            except Exception as error:  # noqa: BLE001 - Ray's own classes exist at this end alone
                lines = str(error).strip().splitlines() or [type(error).__name__]
                raise ValueError(" ".join(line.strip() for line in lines[-3:])[:600]) from None

        return call
