"""What attempts are asked while they run. Read by `control`, which asks, and by engines, which pass it on."""

from __future__ import annotations

from enum import StrEnum


class LeaveRequest(StrEnum):
    """What a live attempt has been asked to do; the strongest ask wins (stop over the others)."""

    PAUSE = "pause"
    PREEMPT = "preempt"
    STOP = "stop"
    STOP_NOW = "stop_now"  # without grace
    TIME_LIMIT = "time_limit"

    @property
    def ends(self) -> bool:
        """Whether a user ends the run by it for good."""
        return self in (LeaveRequest.STOP, LeaveRequest.STOP_NOW)
