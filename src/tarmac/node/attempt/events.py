"""The runner's report, events.jsonl. Called by the runner, which must never fail for lack of disk space.

Workers can write to the file or replace it. Therefore the log remembers its lines, and writes the end, after
the last worker, into a file with this report alone.

Lines wait in memory until they are written: if the disk is full, the log retries later, in order, and
completes a truncated line. For an attempt that lasts it reserves space for a typical report.
"""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import suppress
from typing import Optional

from tarmac.node.files import untrusted
from tarmac.node.files.masking import NO_SECRETS
from tarmac.node.kernel import fifo, syscalls
from tarmac.node.kernel.system_users import as_server

_RESERVED_BYTES = 32 * 1024
_REMEMBERED = 10_000
_FULL = (errno.ENOSPC, errno.EDQUOT)
_MENDED = "events.jsonl held what this runner had not written, or not what it had: it was written anew"


class EventLog:
    """Appends events and notifies the engine. Values that `mask` hides appear in none."""

    def __init__(self, path: str, *, notify: Optional[str] = None, attempt_id: str = "") -> None:
        """Appends to `path`, and notifies the engine at the FIFO `notify` of news of the attempt."""
        self.mask = NO_SECRETS
        self._path = path
        self._notify = notify
        self._news = f"{attempt_id}\n".encode()
        self._handle = -1
        self._reserves = False
        self._rung = True
        self._pending = b""
        self._lines: list[bytes] = []
        self._forgotten = False
        self._written_bytes = 0

    def append(self, kind: str, **fields: object) -> None:
        """Add an event; it is on disk after the next `flush`."""
        event = {"at": round(time.time(), 6), "kind": kind, **self.mask.tree(fields)}
        line = json.dumps(event).encode() + b"\n"
        self._pending += line
        self._lines.append(line)
        if len(self._lines) > _REMEMBERED:  # the first and the last lines are the most useful
            del self._lines[_REMEMBERED // 4 : _REMEMBERED // 2]
            self._forgotten = True

    def notice(self, text: str) -> None:
        """Add a message for the user."""
        self.append("notice", text=text)

    def flush(self, *, quietly: bool = False) -> bool:
        """Write the waiting lines and notify the engine; False if some still wait.

        `quietly`: notify it at the next call.
        """
        if self._pending:
            if not self._write():
                return False
            self._rung = False
        if not self._rung and not quietly:
            self.ring()
        return True

    def keep_up(self) -> None:
        """Reserve space, as the attempt lasts, and write the waiting lines; called at intervals."""
        if not self._reserves:
            self._reserves = True
            self._reserve()
        self.flush()

    def finish(self) -> bool:
        """Write the waiting lines and verify the file; False if some still wait. The caller then rings."""
        if not self._write() or not self._mend():
            return False
        self.close()
        return True

    def ring(self) -> None:
        """Notify the engine of news."""
        self._rung = True
        if self._notify:
            fifo.ring(self._notify, self._news)

    def close(self) -> None:
        """Release the reserved space."""
        if self._handle >= 0:
            if self._reserves:
                os.ftruncate(self._handle, os.fstat(self._handle).st_size)
            self._drop_handle()

    @as_server()
    def _write(self) -> bool:
        try:
            if self._handle < 0:
                self._handle = untrusted.open_to_extend(self._path)
                if self._reserves:
                    self._reserve()
            while self._pending:
                written = os.write(self._handle, self._pending)
                self._pending = self._pending[written:]
                self._written_bytes += written
        except OSError:
            self._drop_handle()
            return False  # probably the disk is full: the next flush continues from here
        return True

    def _reserve(self) -> None:
        if self._handle >= 0:
            with suppress(OSError):  # this disk cannot reserve space, or is already full: retry writes
                syscalls.reserve(self._handle, _RESERVED_BYTES)

    @as_server()
    def _mend(self) -> bool:
        """Rewrite the report if the file differs from it; False while the disk is full."""
        if self._is_whole():
            return True
        note = json.dumps({"at": round(time.time(), 6), "kind": "notice", "text": _MENDED}).encode() + b"\n"
        content = b"".join((*self._lines[:-1], note, *self._lines[-1:]))
        try:
            if os.path.isdir(self._path) and not os.path.islink(self._path):
                os.rename(self._path, f"{self._path}.found")
            untrusted.replace(self._path, content)
        except OSError as error:
            return error.errno not in _FULL
        self._drop_handle()
        return True

    def _is_whole(self) -> bool:
        try:
            found, own = os.lstat(self._path), os.fstat(self._handle)
        except OSError:
            return False
        if not os.path.samestat(found, own) or own.st_size != self._written_bytes:
            return False
        if self._forgotten:
            return True
        return untrusted.pread(self._handle, 0, self._written_bytes) == b"".join(self._lines)

    def _drop_handle(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
