"""Arrays in commands: the runs that a reference means, and the progress of all members.

A name, or an array's id, means all members of the newest array of that name; `NAME[3]`, or a run's own id,
means one member. Called by `service`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tarmac.model.array import array_id_of
from tarmac.model.changes import NewRun
from tarmac.model.errors import NotFound, Refused
from tarmac.model.ports import Ids, Store
from tarmac.model.record import replace
from tarmac.model.run import Run
from tarmac.model.summary import RunQuery

MOST_LOADED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayStatus:
    """An array and its progress: the number of members per state, and per outcome once ended.

    `run` is the member that the question referred to.
    """

    run: Run
    total: int
    counts: Mapping[str, int]


def members_of(first: NewRun, ids: Ids, now: float) -> list[NewRun]:
    """A new run as the members of its array; unchanged if it has no array. Raises Refused for a rehearsal."""
    run, array = first.run, first.run.spec.array
    if array is None:
        return [first]
    if run.spec.rehearsal is not None:
        raise Refused(
            f"{run.name} is an array, and a rehearsal makes a cluster for one run",
            hint="rehearse one member: --set array=0",
        )
    array_id, key, found = array_id_of(run.id), run.idempotency_key, []
    for place, index in enumerate(array.values()):
        member = replace(
            run,
            id=run.id if place == 0 else ids.run_id(now),
            array_id=array_id,
            array_index=index,
            idempotency_key=None if key is None else f"{key}[{array}][{index}]",
        )
        found.append(NewRun(run=member, events=first.events))
    return found


def means_all(run: Run, reference: str) -> bool:
    """Whether a reference that led to this run means every member of its array."""
    return run.array_id is not None and reference in (run.name, run.array_id)


def live_members(store: Store, run: Run) -> Sequence[Run]:
    """The members of the run's array that have not ended, smallest index first."""
    assert run.array_id is not None, "it is a member of an array"
    found = store.runs(RunQuery(array_id=run.array_id, limit=MOST_LOADED))
    loaded = store.load_runs([each.id for each in found if each.ended_at is None])
    return sorted(loaded.values(), key=lambda each: each.array_index or 0)


def array_status(store: Store, run: Run) -> ArrayStatus:
    """The progress of a run's array; raises NotFound if the run belongs to no array."""
    if run.array_id is None:
        raise NotFound(f"{run.name} ({run.id}) is a single run, no member of an array")
    counts: dict[str, int] = {}
    for (state, outcome), count in sorted(store.array_counts(run.array_id).items()):
        word = str(outcome or state)
        counts[word] = counts.get(word, 0) + count
    return ArrayStatus(run=run, total=sum(counts.values()), counts=counts)
