"""The runner's report, events.jsonl. Called by the runner, which must never fail for want of disk space.

Lines wait in memory until they are written: what a full disk refuses now is tried again later, in order, and
a line that was cut short is continued. Space for the usual report is set aside at the start, while there is
some.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Optional

from tarmac.node import fifo, syscalls

_RESERVED_BYTES = 32 * 1024


class EventLog:
    """Appends events and tells the engine of them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle = -1
        self._pending = b""
        self._notify: Optional[str] = None
        self._news = b""

    def tell(self, notify: Optional[str], attempt_id: str) -> None:
        """From now on say at the FIFO `notify` that there is news of the attempt."""
        self._notify, self._news = notify, f"{attempt_id}\n".encode()

    def append(self, kind: str, **fields: object) -> None:
        """Add an event; it is on disk after the next `flush`."""
        line = json.dumps({"at": round(time.time(), 6), "kind": kind, **fields})
        self._pending += line.encode() + b"\n"

    def flush(self) -> bool:
        """Write what waits and tell the engine; False when something still waits."""
        if not self._pending:
            return True
        try:
            if self._handle < 0:
                self._open()
            while self._pending:
                written = os.write(self._handle, self._pending)
                self._pending = self._pending[written:]
        except OSError:
            self._drop_handle()
            return False  # most likely the disk is full: the next flush goes on where this one ended
        if self._notify:
            fifo.ring(self._notify, self._news)
        return True

    def close(self) -> None:
        """Give back the space set aside."""
        if self._handle >= 0:
            os.ftruncate(self._handle, os.fstat(self._handle).st_size)
            self._drop_handle()

    def _open(self) -> None:
        self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        with suppress(OSError):  # this disk cannot, or it is full already: then patience must do
            syscalls.reserve(self._handle, _RESERVED_BYTES)

    def _drop_handle(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
