"""The order of the queue: who is asked first. Used by `planning` and `explain`.

Each policy of a pool is a function like `by_priority`; this is the one there is so far.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.model.spec import Mode
from tarmac.sched.facts import Candidate

_MODE_RANK = {Mode.CYCLE: 0, Mode.BATCH: 1, Mode.BURST: 1, Mode.INTERRUPTIBLE: 2}


def by_priority(queue: Iterable[Candidate]) -> list[Candidate]:
    """Cycle runs, then batch, then interruptible; bigger priority first; then place in the queue, then id.

    A run's place is its submission time until a person gives it another: both are on one scale, so that a
    run can be put between any two others.
    """
    return sorted(queue, key=_by_priority)


def _by_priority(candidate: Candidate) -> tuple[int, int, float, float, str]:
    place = candidate.position
    submitted_at = candidate.submitted_at
    return (
        _MODE_RANK[candidate.mode],
        -candidate.priority,
        submitted_at if place is None else place,
        submitted_at,
        candidate.run_id,
    )
