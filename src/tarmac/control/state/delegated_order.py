"""The order of the runs in the queues of clusters that have their own. Owned by `RunCache`.

Running runs come first, then those waiting in the cluster's queue, in its expected start order if known; last
the runs that are not submitted yet.
"""

from bisect import bisect_left, insort
from math import inf
from sys import intern

from tarmac.control.delegation import queue_of
from tarmac.control.state.engines import AttachedEngine
from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.run import Attempt, Run

Place = tuple[str, str, int, float, float, str, str]
"""Cluster and pool; the part of the queue, and the order within it; the id and the user of the run."""


class DelegatedOrder:
    """The places of runs, in order and by run id: updated with each change, so that no answer sorts them."""

    def __init__(self) -> None:
        self.order: list[Place] = []
        self.places: dict[str, Place] = {}

    def put(self, run_id: str, place: Place | None) -> None:
        """Move a run to its present place; None: it is in no such queue."""
        before = self.places.pop(run_id, None)
        if before is not None:
            del self.order[bisect_left(self.order, before)]
        if place is not None:
            self.places[run_id] = place
            insort(self.order, place)


def place_of(run: Run, attempt: Attempt | None, engine: AttachedEngine | None) -> Place:
    """The place of a run for the cluster of this engine, with its user interned: some pages compare all."""
    return *_key(run, attempt, engine), *_order(run, attempt), run.id, intern(run.user)


def _key(run: Run, attempt: Attempt | None, engine: AttachedEngine | None) -> tuple[str, str]:
    if attempt is not None:
        return attempt.allocation.cluster, attempt.allocation.pool
    offer = queue_of(run, engine) if engine is not None else None
    named = run.place.pool or run.spec.target.pool or DEFAULT_POOL
    return run.spec.target.cluster or "", named if offer is None else offer.pool


def _order(run: Run, attempt: Attempt | None) -> tuple[int, float, float]:
    if attempt is None:
        return 2, -run.place.priority, run.queued_at or run.created_at
    if attempt.allocated_at is not None:
        return 0, 0.0, attempt.allocated_at
    expected_at = attempt.native.expected_start_at if attempt.native is not None else None
    return 1, inf if expected_at is None else expected_at, attempt.created_at
