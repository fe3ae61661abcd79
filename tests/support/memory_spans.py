"""The usage of attempts as the store shows it, for `MemoryStore`."""

from tarmac.model.people.usage import AttemptSpan
from tarmac.model.run import Allocation, Attempt, Release, Run


def span_of(of: Run, known: Attempt) -> AttemptSpan | None:
    """An attempt as usage; None if it has not held its allocation yet."""
    begin = known.allocated_at
    if begin is None:
        return None
    return AttemptSpan(
        run_id=of.id,
        attempt=known.number,
        user=of.user,
        project=of.project,
        cluster=known.allocation.cluster,
        pool=known.allocation.pool,
        begin=begin,
        end=known.ended_at,
        slots=known.allocation.slots,
        released=tuple((each.at, _slots_of(known.allocation, each)) for each in known.released),
    )


def _slots_of(allocation: Allocation, release: Release) -> int:
    return sum(
        len(each.slots)
        for each in allocation.placements
        if (each.role, each.replica) == (release.role, release.replica)
    )
