"""Runs longer than the wall time of their cluster: job after job, while each makes progress. Pure.

A job that ended at its wall time uses up no retry. A run without checkpoints would begin at 0 each time, and
one that never passes its last step would never end. Called by `apply_observation`.
"""

from __future__ import annotations

from tarmac.model.run import Attempt, CauseCode, Retry, Run

MAX_FUTILE = 3
"""The number of jobs in a row that may end at their wall time without progress."""

_END = CauseCode.WALL_TIME.value


def is_futile(run: Run, attempt: Attempt) -> bool:
    """Whether the run gets no other job after its just ended attempt."""
    return futile_ends(run, attempt) >= MAX_FUTILE


def futile_ends(run: Run, attempt: Attempt) -> int:
    """The number of jobs in a row, up to this one, that ended at their wall time without progress."""
    if attempt.cause is None or attempt.cause.code is not CauseCode.WALL_TIME:
        return 0
    before = _before(run)
    return 0 if _leads_on(attempt, before) else 1 + (before.tries if before is not None else 0)


def next_start(run: Run, attempt: Attempt, now: float) -> Retry | None:
    """The retry record after a job that ended at its wall time: the next job may begin at once."""
    if attempt.cause is None or attempt.cause.code is not CauseCode.WALL_TIME:
        return None
    before, step = _before(run), attempt.milestones.checkpoint_step
    known = before.step if before is not None else None
    best = max((each for each in (step, known) if each is not None), default=None)
    return Retry(at=now, tries=futile_ends(run, attempt), end=_END, step=best)


def futile_text(run: Run, attempt: Attempt) -> str:
    """The addition to the cause of a run that gets no other job for this reason."""
    if not is_futile(run, attempt):
        return ""
    count, before = futile_ends(run, attempt), _before(run)
    if attempt.milestones.checkpoint_at is None:
        return (
            f"; {count} jobs in a row ended so and no checkpoint was kept: nothing was whole in "
            "$CHECKPOINT_ARTIFACT_PATH, and no other job sees what it saved elsewhere, as in its working "
            "directory. It is not submitted again"
        )
    step = before.step if before is not None else None
    return f"; {count} jobs in a row ended so and none got beyond step {step}: it is not submitted again"


def _before(run: Run) -> Retry | None:
    """The retry record of the previous job, if that ended at its wall time."""
    return run.retry if run.retry is not None and run.retry.end == _END else None


def _leads_on(attempt: Attempt, before: Retry | None) -> bool:
    """Whether the attempt left a checkpoint, and, if steps are known, one of a later step than before."""
    seen = attempt.milestones
    if seen.checkpoint_at is None:
        return False
    known = before.step if before is not None else None
    return known is None or seen.checkpoint_step is None or seen.checkpoint_step > known
