"""Which checkpoint the next attempt of a run begins from, and whether the newest one is passed over. Pure.

An attempt that failed soon after it had begun from a checkpoint, and saved none, may have failed because of
that checkpoint: the next one begins from the version before. Where that fails in the same way, the one after
it begins from the newest again, and so on in turns: an error in the program neither walks back through all
versions nor costs the newest one. Called by `loss`, and by `control.reconcilers.deliver`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tarmac.model.milestones import Milestones, SavedWork
from tarmac.model.run import Attempt, CauseCode, Outcome

SOON_S = 120.0
"""A program that has trained for longer, since it first read its checkpoint, was able to use it."""


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
