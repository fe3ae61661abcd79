"""The lines of a page of a queue: a run each, or all members of an array. Called by `queueing`, and for the
queues of clusters by `delegated_queue`.

The members of an array are counted in the cache of runs, so a line of 100,000 members costs what one costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from tarmac import api
from tarmac.control.state.run_cache import RunCache
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import NativeStatus
from tarmac.model.run import Run

MOST_FOLDED = 2_000
"""The most runs that a page looks at for its lines of arrays."""

_IN_NO_QUEUE = frozenset({RunState.PENDING, RunState.PAUSED})


class Member(NamedTuple):
    """A run in a queue, at `place` from 0, and the slots that it holds of those it needs."""

    place: int
    run: Run
    acquired: int
    needed: int
    native: NativeStatus | None = None


_OF_RUN = [name for name in api.QueueEntry.__struct_fields__ if hasattr(Run, name)]
_run_values = attrgetter(*_OF_RUN)
"""The fields of a line that a run has: found once, because a page has up to 5,000."""

Line = list[Member]
"""A run, or those members of an array that a page has met, the first of them first."""

EstimateOf = Callable[[Member], api.Estimate | None]


class Arrays(NamedTuple):
    """The members of each array in each state, and the slots that they hold."""

    members: Mapping[str, Counter[RunState]]
    slots: Mapping[str, int]

    @classmethod
    def of(cls, run_cache: RunCache) -> Arrays:
        """The arrays of all live runs."""
        slots = Counter[str]()
        for run_id, attempt in run_cache.attempts.items():
            if attempt.allocated_at is not None and (of := run_cache.runs[run_id].array_id) is not None:
                slots[of] += attempt.current_allocation.slots
        return cls(run_cache.members, slots)


def lines_of(members: Iterable[Member], limit: int | None) -> tuple[list[Line], int | None]:
    """At most `limit` lines of arrays and single runs, and the place of the first run that is on none."""
    lines: dict[str, Line] = {}
    for member in members:
        unit = member.run.array_id or member.run.id
        if unit not in lines and len(lines) == limit:
            return list(lines.values()), member.place
        lines.setdefault(unit, []).append(member)
    return list(lines.values()), None


def page_of(
    pool: Pool,
    total: int,
    lines: Iterable[Line],
    estimate: EstimateOf = lambda _: None,
    *,
    following: int | None = None,
    arrays: Arrays | None = None,
) -> api.QueuePool:
    """The page with these lines; `following` is the place of the first run behind it."""
    return api.QueuePool(
        cluster=pool.cluster,
        pool=pool.name,
        policy=pool.policy,
        preemption=pool.preemption,
        total=total,
        runs=tuple(_entry(line, estimate, arrays) for line in lines),
        next=following,
    )


def _entry(line: Line, estimate: EstimateOf, arrays: Arrays | None) -> api.QueueEntry:
    place, run, acquired, needed, native = line[0]
    entry = api.QueueEntry(
        number=place + 1,
        **dict(zip(_OF_RUN, _run_values(run), strict=True)),
        mode=run.spec.mode,
        priority=run.place.priority,
        weight=run.place.weight,
        submitted_at=run.created_at,
        slots_acquired=acquired,
        slots_needed=needed,
        estimate=next((found for each in line if (found := estimate(each)) is not None), None),
        retry_at=None if run.retry is None or run.state is not RunState.QUEUED else run.retry.at,
        native=native,
    )
    if arrays is None or run.array_id is None:
        return entry
    known = arrays.members.get(run.array_id, {run.state: 1})
    members = {state.value: count for state, count in known.items() if count and state not in _IN_NO_QUEUE}
    return replace(
        entry,
        id=run.array_id,
        array_index=None,
        slots_acquired=arrays.slots.get(run.array_id, 0),
        slots_needed=sum(members.values()) * needed,
        members=members,
        native=None,
    )
