"""A loss in words. Separate because the command line uses it without the model of a run."""

from __future__ import annotations

LEAST_S = 1.0
"""Smaller losses count as none: the worker saved last and left."""


def loss_text(work_s: float, checkpoint_at: float | None, step: int | None, rejected: bool = False) -> str:
    """In words, as what follows "lost:"."""
    if checkpoint_at is None:
        return f"{_seconds(work_s)} of work; it has no checkpoint: it will start again at 0"
    checkpoint = "its last checkpoint" if step is None else f"the checkpoint at step {step}"
    if rejected:
        lost = f"at least {_seconds(work_s)} of work: it failed soon after it had begun from {checkpoint}"
        return f"{lost}; the next attempt begins from the version before, if there is one"
    if work_s < LEAST_S:
        return f"no work: it goes on from {checkpoint}"
    return f"{_seconds(work_s)} of work since {checkpoint}"


def _seconds(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`: seconds matter less in longer times."""
    for unit, length_s in (("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
