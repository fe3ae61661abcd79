"""Ends of attempts: the work lost, the checkpoint from which the next one begins, ends without a word. Pure.

The next attempt begins from the version before the newest if an attempt failed soon after it had begun from
that, and saved none; where that fails in the same way, the one after it begins from the newest again, and so
on in turns: an error in the program neither walks back through all versions nor costs the newest one. Called
by `control` and the routes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Cause, CauseCode, Loss, Milestones, Outcome, SavedWork
from tarmac.model.run import Attempt

_GOES_ON = frozenset({Outcome.PAUSED, Outcome.PREEMPTED, Outcome.FAILED, Outcome.LOST})


SOON_S = 120.0
"""A program that has trained for longer, since it first read its checkpoint, was able to use it."""


def loss_of(attempts: Sequence[Attempt], successor: Attempt | None = None) -> Loss | None:
    """The loss of the last of these attempts; None if it runs, never ran, completed or was stopped.

    It counts from the version from which the run continues, or the one that its `successor` has restored, if
    known: later checkpoints do not help a successor that does not get them.
    """
    last = attempts[-1] if attempts else None
    if last is None or last.started_at is None or last.ended_at is None or last.outcome not in _GOES_ON:
        return None
    newest, began, rejected_by = resumption_after(attempts)
    restored = successor.milestones.restored if successor is not None else None
    saved = restored or newest
    # Where that is older than what the attempt began from, work of earlier attempts is lost, too.
    earlier_s = sum(_worked_s(each, saved.at, began.at) for each in attempts[:-1])
    return Loss(
        work_s=_worked_s(last, saved.at) + earlier_s,
        checkpoint_at=saved.at or None,
        step=saved.step,
        rejected=restored is None and bool(rejected_by),
    )


def _worked_s(attempt: Attempt, since: float, until: float = float("inf")) -> float:
    """How long an attempt worked between two times, until it was asked to leave or ended."""
    if attempt.started_at is None or attempt.ended_at is None:
        return 0.0
    ends = (attempt.leave_requested_at, attempt.milestones.over_at, attempt.ended_at)
    left_at = min(at for at in ends if at is not None)
    return max(0.0, min(left_at, until) - max(attempt.started_at, since))


class Resumption(NamedTuple):
    """`newest` is the newest checkpoint of a run, and `began` what its last attempt began from.

    `rejected_by` is the number of the attempt that failed with the newest: the next gets the one before.
    0: the last one had that and failed, too, and the next gets the newest again.
    """

    newest: SavedWork = SavedWork()
    began: SavedWork = SavedWork()
    rejected_by: int | None = None


def resumption_after(attempts: Sequence[Attempt]) -> Resumption:
    """What the attempt after these begins from."""
    newest, began, rejected_by = Resumption()
    for attempt in attempts:
        began = attempt.milestones.restored or newest
        if not rejected_by:
            newest = began
        saved = _saved_work(attempt.milestones)
        if saved is not None and saved.at != began.at:
            newest, rejected_by = saved, None
        elif began.at and _failed_soon(attempt):
            rejected_by = 0 if rejected_by else attempt.number
    return Resumption(newest, began, rejected_by)


def _saved_work(seen: Milestones) -> SavedWork | None:
    """The newest checkpoint in the version that an attempt left; without one, the newest that was seen."""
    if seen.kept is not None or seen.checkpoint_at is None:
        return seen.kept
    return SavedWork(seen.checkpoint_at, seen.checkpoint_step)


def _failed_soon(attempt: Attempt) -> bool:
    """Whether it failed by itself soon after its start, or after it had read its checkpoint."""
    began_at = attempt.milestones.read_at or attempt.started_at
    over_at = attempt.milestones.over_at or attempt.ended_at
    if attempt.outcome is not Outcome.FAILED or began_at is None or over_at is None:
        return False
    is_own = attempt.cause is None or attempt.cause.code in (CauseCode.EXIT_CODE, CauseCode.SIGNAL)
    return is_own and attempt.leave_requested_at is None and over_at - began_at <= SOON_S


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
