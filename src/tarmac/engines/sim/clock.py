"""Virtual time: hours of training pass in milliseconds, and a test is never late.

The simulated engine, simulation tests and `tarmac simulate` run the real loops under it.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

Callback = Callable[[], None]


@dataclass(slots=True)
class Appointment:
    """A future callback; None once it was called or cancelled."""

    callback: Callback | None


class VirtualClock:
    """A clock that moves only on request, calling due callbacks on the way.

    Implements the port `Clock`. Not thread-safe: a simulation is one thread.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._appointments: list[tuple[float, int, Appointment]] = []  # the number orders equal times
        self._made = 0

    def now(self) -> float:
        """The time, in seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward by a number of seconds."""
        self.advance_to(self._now + seconds)

    def advance_to(self, at: float) -> None:
        """Move to `at` (never backwards); callbacks run in order, each at its own time."""
        while self._appointments and self._appointments[0][0] <= at:
            due_at, _, due = heapq.heappop(self._appointments)
            self._now = max(self._now, due_at)
            if due.callback is not None:
                due.callback()
        self._now = max(self._now, at)

    def next_event_at(self) -> float | None:
        """The time of the next callback; None if there is none."""
        while self._appointments and self._appointments[0][2].callback is None:
            heapq.heappop(self._appointments)
        return self._appointments[0][0] if self._appointments else None

    def call_at(self, at: float, callback: Callback) -> Appointment:
        """Call `callback` at a time; one in the past is due at the next advance."""
        self._made += 1
        appointment = Appointment(callback)
        heapq.heappush(self._appointments, (at, self._made, appointment))
        return appointment
