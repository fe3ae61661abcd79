"""The work lost when an attempt left: the part that no checkpoint holds.

Pure; used for messages by `loss_text`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.model.progress import Loss
from tarmac.model.resuming import resumption_after
from tarmac.model.run import Attempt, Outcome

_GOES_ON = frozenset({Outcome.PAUSED, Outcome.PREEMPTED, Outcome.FAILED, Outcome.LOST})


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
