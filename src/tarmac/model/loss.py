"""What was lost when an attempt left: the work that no checkpoint holds. Pure.

`loss_text` says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.model.run import Attempt, Milestones, Outcome

_GOES_ON = frozenset({Outcome.PAUSED, Outcome.PREEMPTED, Outcome.FAILED, Outcome.LOST})

_PUBLISHED_S = 5.0
"""A checkpoint is seen when it gets its name, which may be so long after its last file was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The work of an attempt that its successor has to do again.

    `checkpoint_at` is when the checkpoint was whole from which the run goes on (None: there is none, it
    starts again at 0), `step` the step it is of, where that is known.
    """

    work_s: float
    checkpoint_at: float | None = None
    step: int | None = None


def loss_of(attempts: Sequence[Attempt], successor: Attempt | None = None) -> Loss | None:
    """What the last of these attempts lost; None where it still runs, never ran, completed or was stopped.

    What counts is the version from which the run goes on, and what its `successor` has restored, if that is
    known: what was seen of later checkpoints is no help to one that does not get them.
    """
    last = attempts[-1] if attempts else None
    if last is None or last.started_at is None or last.ended_at is None or last.outcome not in _GOES_ON:
        return None
    left_at = (
        last.ended_at if last.leave_requested_at is None else min(last.leave_requested_at, last.ended_at)
    )
    restored_at = successor.milestones.restored_at if successor is not None else None
    saved_at = _saved_at(attempts) if restored_at is None else restored_at
    return Loss(
        work_s=max(0.0, left_at - max(last.started_at, saved_at)),
        checkpoint_at=saved_at or None,
        step=_step(attempts, saved_at),
    )


def _saved_at(attempts: Sequence[Attempt]) -> float:
    """When the checkpoint was saved that the next attempt gets; 0 where there is none."""
    for attempt in reversed(attempts):
        seen = attempt.milestones
        if seen.kept_at is not None:
            return seen.kept_at
        if seen.checkpoint_at is not None:
            return seen.checkpoint_at
    return 0.0


def _step(attempts: Sequence[Attempt], saved_at: float) -> int | None:
    """The step of the newest checkpoint that was seen, unless the kept one is earlier."""
    seen = (attempt.milestones for attempt in reversed(attempts))
    newest = next((milestones for milestones in seen if milestones.checkpoint_at is not None), Milestones())
    is_kept = newest.checkpoint_at is not None and newest.checkpoint_at <= saved_at + _PUBLISHED_S
    return newest.checkpoint_step if is_kept else None
