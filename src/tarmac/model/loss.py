"""What was lost when an attempt left: the work that no checkpoint holds. Pure.

`loss_text` says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.model.run import Attempt, Milestones, Outcome

_GOES_ON = frozenset({Outcome.PAUSED, Outcome.PREEMPTED, Outcome.FAILED, Outcome.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The work of an attempt that its successor has to do again.

    `checkpoint_at` is when the checkpoint was whole from which the run goes on (None: there is none, it
    starts again at 0), `step` the step it is of, where that is known.
    """

    work_s: float
    checkpoint_at: float | None = None
    step: int | None = None


def loss_of(attempts: Sequence[Attempt]) -> Loss | None:
    """What the last of these attempts lost; None where it still runs, never ran, completed or was stopped."""
    last = attempts[-1] if attempts else None
    if last is None or last.started_at is None or last.ended_at is None or last.outcome not in _GOES_ON:
        return None
    left_at = (
        last.ended_at if last.leave_requested_at is None else min(last.leave_requested_at, last.ended_at)
    )
    newest = newest_checkpoint(attempts)
    since = max(last.started_at, newest.checkpoint_at or 0.0)
    return Loss(
        work_s=max(0.0, left_at - since), checkpoint_at=newest.checkpoint_at, step=newest.checkpoint_step
    )


def newest_checkpoint(attempts: Sequence[Attempt]) -> Milestones:
    """What was seen of the newest checkpoint of any of these attempts."""
    seen = (attempt.milestones for attempt in reversed(attempts))
    return next((milestones for milestones in seen if milestones.checkpoint_at is not None), Milestones())
