"""How many slots the trials of an experiment may hold together, and which queued ones wait for that.

Kept by `run_cache`, which tells the scheduler of no run that waits so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run


@dataclass(frozen=True, slots=True)
class _Member:
    """A live trial: what it asks for, whether it holds that or is queued for it."""

    slots: int
    most: int
    holds: bool
    queued: bool


class GroupLimits:
    """The live trials of experiments with a limit, by experiment and run id."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, _Member]] = {}
        self._group_of: dict[str, str] = {}

    def note(self, run: Run, *, holds: bool) -> list[str]:
        """Take up a run as it is now; the queued ones to look at again where that changes what is left."""
        trial = run.spec.trial
        if trial is None or trial.max_slots is None:
            return []
        member = _Member(run.spec.slots, trial.max_slots, holds, run.state is RunState.QUEUED)
        group = self._groups.setdefault(trial.experiment, {})
        if group.get(run.id) == member:
            return []
        group[run.id] = member
        self._group_of[run.id] = trial.experiment
        return self._queued(group)

    def forget(self, run_id: str) -> list[str]:
        """The run is over; as with `note`."""
        experiment = self._group_of.pop(run_id, None)
        if experiment is None:
            return []
        group = self._groups[experiment]
        del group[run_id]
        if not group:
            del self._groups[experiment]
        return self._queued(group)

    def waits(self, run_id: str) -> int | None:
        """The limit that a queued run waits for; None where it may start. Older trials come first."""
        group = self._groups.get(self._group_of.get(run_id, ""), {})
        left = None
        for name in sorted(group, key=lambda name: (not group[name].holds, name)):
            member = group[name]
            left = member.most if left is None else left
            if not (member.holds or member.queued):
                continue
            if member.queued and member.slots > left:
                if name == run_id:
                    return member.most
                continue
            left -= member.slots
        return None

    def _queued(self, group: dict[str, _Member]) -> list[str]:
        return [name for name, member in group.items() if member.queued]
