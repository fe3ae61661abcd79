"""Queued runs that may not start yet after a failure, or wait for other runs. Kept by `FactsIndex`.

The facts and the time of the cycle decide which runs are deferred: the index wakes them at the beginning of a
cycle. Time does not wake a run that waits for another: its caller queues it again after that one has ended.
"""

from __future__ import annotations

from math import inf

from tarmac.sched.facts import Candidate


class Deferred:
    """Candidates that do not start before a time, or before others end; `now` is that of the last cycle."""

    __slots__ = ("_asleep", "_awake", "now")

    def __init__(self, now: float = -inf) -> None:
        self.now = now
        self._asleep: dict[str, Candidate] = {}
        self._awake: dict[str, Candidate] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._asleep

    def defers(self, candidate: Candidate) -> bool:
        """Whether a candidate that queues is deferred now. Remembers it if it may be at another time."""
        if candidate.not_before is None and not candidate.awaits and not candidate.over_limit:
            return False
        rests = _rests(candidate, self.now)
        (self._asleep if rests else self._awake)[candidate.run_id] = candidate
        return rests

    def forget(self, run_id: str) -> bool:
        """Forget a candidate; True if it was deferred."""
        self._awake.pop(run_id, None)
        return self._asleep.pop(run_id, None) is not None

    def woken(self, now: float) -> list[Candidate]:
        """Wake the candidates whose time has come, and return them."""
        self.now = now
        found = [item for item in self._asleep.values() if not _rests(item, now)]
        for candidate in found:
            self._awake[candidate.run_id] = self._asleep.pop(candidate.run_id)
        return found

    def put_back(self, now: float) -> list[Candidate]:
        """Defer the woken candidates that are not due at this earlier time, and return them."""
        found = [item for item in self._awake.values() if _rests(item, now)]
        for candidate in found:
            self._asleep[candidate.run_id] = self._awake.pop(candidate.run_id)
        return found

    def wakes_at(self) -> float:
        """The earliest start of a deferred candidate."""
        return min((_not_before(item) for item in self._asleep.values()), default=inf)

    def candidates(self) -> list[Candidate]:
        """The candidates that are deferred now."""
        return list(self._asleep.values())


def _rests(candidate: Candidate, now: float) -> bool:
    return _not_before(candidate) > now


def _not_before(candidate: Candidate) -> float:
    if candidate.awaits or candidate.over_limit:
        return inf
    return -inf if candidate.not_before is None else candidate.not_before
