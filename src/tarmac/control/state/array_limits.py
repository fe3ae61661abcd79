"""How many members of an array may hold slots at once. Kept by `run_cache`.

Members start in the order of their index. Those that have to wait for others of their array are held back:
neither the scheduler nor the queue of a cluster is told of them. All follows from the runs as they are, so
nothing is to be stored.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run


@dataclass(slots=True)
class _Array:
    at_most: int
    active: set[str] = field(default_factory=set)
    queued: list[tuple[int, str]] = field(default_factory=list)
    allowed: frozenset[str] = frozenset()

    def settled(self) -> frozenset[str]:
        """Whose permission has changed."""
        count = max(0, self.at_most - len(self.active))
        before, self.allowed = self.allowed, frozenset(run_id for _, run_id in self.queued[:count])
        return before ^ self.allowed


class ArrayLimits:
    """Of the arrays with a limit: who holds slots, and who of the queued members may be placed."""

    def __init__(self) -> None:
        self._arrays: dict[str, _Array] = {}
        self._members: dict[str, tuple[str, int]] = {}

    def note(self, run: Run, *, active: bool) -> frozenset[str]:
        """Take up a run as it is now; the members that may be placed now, or may no more."""
        array = run.spec.array
        if array is None or array.at_most is None or run.array_id is None or run.array_index is None:
            return frozenset()
        known = self._arrays.get(run.array_id)
        if known is None:
            known = self._arrays[run.array_id] = _Array(at_most=array.at_most)
        self._members[run.id] = run.array_id, run.array_index
        self._take_out(known, run.id, run.array_index)
        if active:
            known.active.add(run.id)
        elif run.state is RunState.QUEUED:
            insort(known.queued, (run.array_index, run.id))
        return known.settled()

    def forget(self, run_id: str) -> frozenset[str]:
        """A run has ended, likewise."""
        member = self._members.pop(run_id, None)
        if member is None:
            return frozenset()
        array_id, index = member
        known = self._arrays[array_id]
        self._take_out(known, run_id, index)
        changed = known.settled()
        if not known.active and not known.queued:
            del self._arrays[array_id]
        return changed - {run_id}

    def holds_back(self, run: Run) -> bool:
        """Whether a queued run has to wait for others of its array."""
        known = self._arrays.get(run.array_id) if run.array_id is not None else None
        return known is not None and run.id in self._members and run.id not in known.allowed

    def _take_out(self, array: _Array, run_id: str, index: int) -> None:
        array.active.discard(run_id)
        at = bisect_left(array.queued, (index, run_id))
        if at < len(array.queued) and array.queued[at] == (index, run_id):
            del array.queued[at]
