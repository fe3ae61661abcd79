"""Limits the joint holdings of a group: the active members of an array, the slots of an experiment's trials.

Owned by `run_cache`. Members start in their order; smaller ones overtake a member that needs more than
remains. Waiting members are hidden from the scheduler and from the queues of clusters. All state follows from
the runs, so nothing is stored.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run

_Place = tuple[int, str, int]
"""The place of a member in its group, its run id, and its amount."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The group of a run, its place in it, and its amount of the `most` that all may hold.

    `reason` explains the wait to a member that waits for others.
    """

    group: str
    place: int
    takes: int
    most: int
    reason: str


def membership_of(run: Run) -> Membership | None:
    """The group of a run, if it belongs to a limited one."""
    array, trial = run.spec.array, run.spec.trial
    if array is not None and array.at_most is not None and run.array_id is not None:
        reason = "as many members of its array run, or are before it, as may at once"
        return Membership(run.array_id, run.array_index or 0, 1, array.at_most, reason)
    if trial is not None and run.spec.slots:
        most = trial.max_slots if run.place.max_slots is None else run.place.max_slots
        if most is not None:
            reason = f"the trials of its experiment may hold {most} slots together (max_slots), and do"
            return Membership(trial.experiment, trial.number, run.spec.slots, most, reason)
    return None


@dataclass(slots=True)
class _Group:
    most: int
    taken: dict[str, int] = field(default_factory=dict)
    queued: list[_Place] = field(default_factory=list)
    allowed: frozenset[str] = frozenset()

    def remove(self, place: _Place) -> None:
        self.taken.pop(place[1], None)
        at = bisect_left(self.queued, place)
        if at < len(self.queued) and self.queued[at] == place:
            del self.queued[at]

    def changed(self) -> frozenset[str]:
        """Decide which queued members may be placed; returns those whose permission has changed."""
        left = self.most - sum(self.taken.values())
        allowed = set()
        for _, run_id, takes in self.queued:
            if left <= 0:
                break
            if takes <= left:
                allowed.add(run_id)
                left -= takes
        before, self.allowed = self.allowed, frozenset(allowed)
        return before ^ self.allowed


class GroupLimits:
    """The groups with a limit: the amount each member holds, and the queued members that may be placed."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._members: dict[str, tuple[_Group, _Place, Membership]] = {}

    def note(self, run: Run, *, active: bool) -> frozenset[str]:
        """Record the current state of a run; returns the members whose permission has changed."""
        membership = membership_of(run)
        if membership is None:
            return frozenset()
        place = membership.place, run.id, membership.takes
        group = self._groups.setdefault(membership.group, _Group(membership.most))
        group.most = membership.most
        self._members[run.id] = group, place, membership
        group.remove(place)
        if active:
            group.taken[run.id] = membership.takes
        elif run.state is RunState.QUEUED:
            insort(group.queued, place)
        return group.changed()

    def forget(self, run_id: str) -> frozenset[str]:
        """Forget an ended run; returns the others that may be placed now."""
        known = self._members.pop(run_id, None)
        if known is None:
            return frozenset()
        group, place, membership = known
        group.remove(place)
        changed = group.changed()
        if not group.taken and not group.queued:
            self._groups.pop(membership.group, None)
        return changed - {run_id}

    def holds_back(self, run_id: str) -> str | None:
        """The reason why a queued run has to wait for others of its group; None if it may start."""
        known = self._members.get(run_id)
        if known is None or run_id in known[0].allowed:
            return None
        return known[2].reason
