"""What was lost when an attempt left: the work that no checkpoint holds. Pure.

Said by `control.why`, and by the command line after a pause and on the page of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.model.run import Attempt, Milestones, Outcome

LEAST_S = 1.0
"""What is lost in less than so long is not worth a word: the worker saved last and left."""

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


def loss_text(work_s: float, checkpoint_at: float | None, step: int | None) -> str:
    """In words, as what follows "lost:"."""
    if checkpoint_at is None:
        return f"{_seconds(work_s)} of work; it has no checkpoint: it will start again at 0"
    checkpoint = "its last checkpoint" if step is None else f"the checkpoint at step {step}"
    if work_s < LEAST_S:
        return f"no work: it goes on from {checkpoint}"
    return f"{_seconds(work_s)} of work since {checkpoint}"


def _seconds(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`: the more there is, the less the seconds matter."""
    for unit, length_s in (("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
