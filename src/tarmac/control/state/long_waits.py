"""Queued runs with subscriptions to long waits. Owned by `run_cache`."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.control.decisions.notifications import about_waits, next_overdue_at, overdue
from tarmac.model.notification import Notification, Occasion, Subscription
from tarmac.model.run import Run


class LongWaits:
    """Such runs by the time of their next message; `always` are subscriptions to every run."""

    def __init__(self, always: Sequence[Subscription] = ()) -> None:
        self._always = tuple(each for each in always if Occasion.WAITING in each.on)
        self._waiting: dict[str, Run] = {}
        self._noted: dict[str, set[str]] = {}

    def note(self, run: Run) -> None:
        """Record the current state of a run."""
        if not (self._always or run.spec.notify):
            return
        if next_overdue_at(run, self._always) is None:
            self.forget(run.id)
        else:
            self._waiting[run.id] = run

    def forget(self, run_id: str) -> None:
        """The run waits no more."""
        self._waiting.pop(run_id, None)
        self._noted.pop(run_id, None)

    def messages(self, now: float) -> list[Notification]:
        """The messages due by now, less those recorded as written."""
        return [
            message
            for run in self._waiting.values()
            for message in overdue(run, self._always, now)
            if message.key not in self._noted.get(run.id, ())
        ]

    def note_written(self, messages: Sequence[Notification]) -> None:
        """These messages are durable."""
        for message in messages:
            if message.run_id in self._waiting:
                self._noted.setdefault(message.run_id, set()).add(message.key)

    def next_at(self, now: float) -> float | None:
        """The time of the next message."""
        times = (
            run.queued_at + each.waiting_s
            for run in self._waiting.values()
            for each in about_waits(run, self._always)
            if run.queued_at is not None
        )
        return min((at for at in times if at > now), default=None)
