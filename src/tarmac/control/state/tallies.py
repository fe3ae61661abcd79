"""Counts since the start of this server: attempts, and durations of scheduling cycles.

Written by `ControlState` and the schedule loop, read for `/metrics`. A restart begins at 0, as is valid for
counters.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tarmac.model.changes import RunStep
from tarmac.model.lifecycle import AttemptState, RunEvent

CYCLE_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
_BEGINNINGS = frozenset({RunEvent.PLACED, RunEvent.SUBMITTED})


class Tallies:
    """Counts that only grow. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attempts_started = 0
        self._attempts_ended: Counter[str] = Counter()
        self._runs_ended: Counter[str] = Counter()
        self._cycles = [0] * (len(CYCLE_BOUNDS_S) + 1)
        self._cycle_s = 0.0

    def note(self, steps: Iterable[RunStep]) -> None:
        """Count committed steps."""
        with self._lock:
            for step in steps:
                self.attempts_started += any(item.event in _BEGINNINGS for item in step.events)
                attempt, before, after = step.attempt, step.before, step.after
                if step.events and attempt is not None and attempt.state is AttemptState.ENDED:
                    self._attempts_ended[str(attempt.outcome)] += 1
                if after.outcome is not None and before.outcome is None:
                    self._runs_ended[str(after.outcome)] += 1

    def note_cycle(self, seconds: float) -> None:
        """Count a scheduling cycle."""
        with self._lock:
            self._cycles[bisect_left(CYCLE_BOUNDS_S, seconds)] += 1
            self._cycle_s += seconds

    def attempts_ended(self) -> Mapping[str, int]:
        """The number of attempts that ended, by outcome."""
        with self._lock:
            return dict(self._attempts_ended)

    def runs_ended(self) -> Mapping[str, int]:
        """The number of runs that ended, by outcome."""
        with self._lock:
            return dict(self._runs_ended)

    def cycles(self) -> tuple[Sequence[int], float]:
        """The number of cycles up to each of `CYCLE_BOUNDS_S`, and longer; the sum of their seconds."""
        with self._lock:
            return tuple(self._cycles), self._cycle_s
