"""What attempts are asked while they run. Read by `control`, which asks, and by engines, which pass it on."""

from __future__ import annotations

from enum import StrEnum


class LeaveRequest(StrEnum):
    """What a live attempt has been asked to do; the strongest ask wins (kill, then stop, over the others)."""

    PAUSE = "pause"
    PREEMPT = "preempt"
    STOP = "stop"
    KILL = "kill"  # a stop without grace
    TIME_LIMIT = "time_limit"

    @property
    def ends(self) -> bool:
        """Whether a user ends the run by it for good."""
        return self in (LeaveRequest.STOP, LeaveRequest.KILL)
