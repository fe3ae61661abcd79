"""`MemoryNotifications`: the queue of messages as a fake. Made by `MemoryStore`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from tarmac.model.actor import Lease
from tarmac.model.codec import replace
from tarmac.model.notification import Notification, Subscription


class MemoryNotifications:
    """Implements `model.notification.Notifications` in memory."""

    def __init__(
        self, writing: AbstractContextManager[object], fence: Callable[[Lease | None], None]
    ) -> None:
        self._writing = writing
        self._fence = fence
        self._messages: dict[tuple[str, str], Notification] = {}
        self._count = 0
        self._personal: dict[str, tuple[Subscription, ...]] = {}

    def add(self, new: Sequence[Notification]) -> None:
        if new:
            with self._writing:
                self.keep(new)

    def keep(self, new: Sequence[Notification]) -> None:
        """Add messages as a part of another write."""
        for message in new:
            if (message.run_id, message.key) not in self._messages:
                self._count += 1
                self._messages[message.run_id, message.key] = replace(message, id=self._count)

    def due(self, server: str, *, now: float, limit: int) -> list[Notification]:
        waiting = [each for each in self._waiting(server) if each[0] <= now]
        return [message for _, _, message in sorted(waiting, key=lambda each: each[:2])][:limit]

    def next_due_at(self, server: str) -> float | None:
        return min((due_at for due_at, _, _ in self._waiting(server)), default=None)

    def record(self, tried: Sequence[Notification], *, lease: Lease | None = None) -> None:
        with self._writing:
            self._fence(lease)
            for message in tried:
                if (message.run_id, message.key) in self._messages:
                    self._messages[message.run_id, message.key] = message

    def of_run(self, run_id: str) -> list[Notification]:
        found = [message for message in self._messages.values() if message.run_id == run_id]
        return sorted(found, key=lambda message: message.id)

    def subscriptions(self) -> dict[str, tuple[Subscription, ...]]:
        return dict(self._personal)

    def subscribe(self, user: str, new: Sequence[Subscription]) -> None:
        with self._writing:
            self._personal[user] = tuple(new)

    def forget(self, run_id: str) -> None:
        """Remove the messages of a removed run."""
        self._messages = {key: message for key, message in self._messages.items() if key[0] != run_id}

    def _waiting(self, server: str) -> list[tuple[float, int, Notification]]:
        return [
            (message.due_at, message.id, message)
            for message in self._messages.values()
            if message.server == server and message.due_at is not None
        ]
