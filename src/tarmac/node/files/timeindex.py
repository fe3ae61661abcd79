"""The time index of a log: its size over time. Called by the runner while it watches.

The runner neither changes nor reads the log: its size is enough. A line "SECONDS OFFSET" records that at that
time the log was OFFSET bytes long.
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
        """Add a line if the log grew since the last one; `final` ignores the interval."""
        if not final and now - self._noted_at < STEP_S:
            return
        try:
            length = os.stat(self._log).st_size
            if length == self._offset_bytes:
                return
            handle = untrusted.open_to_append(self._index)
        except OSError:
            return  # the index is optional: without space or log there is none
        try:
            os.write(handle, f"{now:.3f} {length}\n".encode())
            self._offset_bytes, self._noted_at = length, now
        except OSError:
            pass
        finally:
            os.close(handle)
