"""Turns of cycle runs (I11): each has its slots for a while, then the next one does. Used by a cycle.

A turn ends even if no run waits: the point of a cycle run is to be paused and resumed. Cycle runs go before
all others, so a run with turns left takes its slots again at once, unless another cycle run is before it.
"""

from __future__ import annotations

from math import inf

from tarmac.model.cluster import Pool
from tarmac.model.spec import Mode
from tarmac.sched.facts import Holding


def ends_at(holding: Holding, pool: Pool) -> float:
    """When the turn of a holding ends (inf: it has none, has not begun it, or is leaving)."""
    if holding.candidate.mode is not Mode.CYCLE or holding.leaving or holding.started_at is None:
        return inf
    return holding.started_at + pool.turn_s


def comes_back(holding: Holding) -> bool:
    """Whether a cycle run returns to its line after its turn."""
    candidate = holding.candidate
    if candidate.mode is not Mode.CYCLE or candidate.turns_left <= 1:
        return False
    return holding.requeues or not holding.leaving
