"""Ends of attempts that say nothing themselves. Called by the engines and by the passes of `control`."""

from __future__ import annotations

from tarmac.model.leaving import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.run import Cause, CauseCode, Outcome

LEFT_AS_REQUESTED = {
    LeaveRequest.PAUSE: Outcome.PAUSED,
    LeaveRequest.PREEMPT: Outcome.PREEMPTED,
    LeaveRequest.STOP: Outcome.STOPPED,
    LeaveRequest.STOP_NOW: Outcome.STOPPED,
    LeaveRequest.TIME_LIMIT: Outcome.STOPPED,
}
"""How an attempt ends that left as it was asked, also one that was taken out of its cluster's queue."""


def lost(message: str, code: CauseCode = CauseCode.PLATFORM_FAULT) -> Observation:
    """The observation of an attempt that ended without a word of its own."""
    cause = Cause(code=code, message=message)
    return Observation(state=ObservedState.ENDED, outcome=Outcome.LOST, cause=cause)
