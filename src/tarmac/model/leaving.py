"""Leave requests to running attempts. Made by `control`, and passed on by engines."""

from __future__ import annotations

from enum import StrEnum


class LeaveRequest(StrEnum):
    """A request to a live attempt to leave; the strongest one wins (stop over the others)."""

    PAUSE = "pause"
    PREEMPT = "preempt"
    STOP = "stop"
    STOP_NOW = "stop_now"  # without grace
    TIME_LIMIT = "time_limit"

    @property
    def ends(self) -> bool:
        """Whether a user ends the run for good with it."""
        return self in (LeaveRequest.STOP, LeaveRequest.STOP_NOW)
