"""The time index beside a log: by which second it had how many bytes. Called by the runner while it watches.

The log itself is never touched, nor read: its size tells. A line "SECONDS OFFSET" says that at that time the
log was OFFSET bytes long.
"""

from __future__ import annotations

import os

from tarmac.node.files import untrusted

STEP_S = 1.0


class TimeIndex:
    """Writes the index of one log, a line at most once a second and only when the log grew."""

    def __init__(self, log: str, index: str) -> None:
        self._log = log
        self._index = index
        self._offset_bytes = 0
        self._noted_at = 0.0

    def note(self, now: float, *, final: bool = False) -> None:
        """Add a line if the log grew since the last one; `final` adds it however soon."""
        if not final and now - self._noted_at < STEP_S:
            return
        try:
            length = os.stat(self._log).st_size
            if length == self._offset_bytes:
                return
            handle = untrusted.open_to_append(self._index)
        except OSError:
            return  # the index is a convenience: without space or log there is none
        try:
            os.write(handle, f"{now:.3f} {length}\n".encode())
            self._offset_bytes, self._noted_at = length, now
        except OSError:
            pass
        finally:
            os.close(handle)
