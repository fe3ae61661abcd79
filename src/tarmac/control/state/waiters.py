"""Queued runs that may not start before others end, by the runs that they wait for. Owned by `run_cache`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run


class Waiters:
    """An index by awaited run, so that an end concerns only the runs that waited for it."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, None]] = {}
        self._awaited: dict[str, tuple[str, ...]] = {}

    def note(self, run: Run) -> None:
        """Record the current state of a run."""
        awaited = tuple(each.run_id for each in run.awaits) if run.state is RunState.QUEUED else ()
        if awaited == self._awaited.get(run.id, ()):
            return
        self.forget(run.id)
        if awaited:
            self._awaited[run.id] = awaited
        for run_id in awaited:
            self._of.setdefault(run_id, {})[run.id] = None

    def forget(self, run_id: str) -> None:
        """The run waits no more."""
        for awaited in self._awaited.pop(run_id, ()):
            waiting = self._of[awaited]
            del waiting[run_id]
            if not waiting:
                del self._of[awaited]

    def of_others(self, is_live: Callable[[str], bool]) -> Mapping[str, tuple[str, ...]]:
        """The awaited runs and arrays without live members here, each with its waiters."""
        return {run_id: tuple(waiting) for run_id, waiting in self._of.items() if not is_live(run_id)}
