"""What the checkpoints of a run are worth, in words. Used by `show`, `pause` and the follower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.cli.views.amounts import age
from tarmac.model.loss import loss_text

if TYPE_CHECKING:
    from tarmac import api

_HOLDING = frozenset({"running", "pausing", "preempting"})


def lost_text(attempts: Sequence[api.Attempt]) -> str:
    """The work that the newest attempt lost, if it has left and may be followed by another."""
    lost = attempts[-1]["lost"] if attempts else None
    return "" if lost is None else loss_text(lost["work_s"], lost["checkpoint_at"], lost["step"])


def checkpoint_text(state: str, attempts: Sequence[api.Attempt], now: float) -> str:
    """How old the newest checkpoint of a run that works is: what came after it would be lost now."""
    if state not in _HOLDING:
        return ""
    seen = (attempt["milestones"] for attempt in reversed(attempts))
    newest = next((milestones for milestones in seen if milestones["checkpoint_at"] is not None), None)
    if newest is None:
        return "none yet"
    step = newest["checkpoint_step"]
    return age(newest["checkpoint_at"], now) + (f", at step {step}" if step is not None else "")
