"""Notifies of changes: the loops by name, and listeners of the server.

Used by `ControlState` (which notifies) and by `loops` and the server (which wait).
"""

import threading
from collections.abc import Callable, Collection
from enum import StrEnum

Listener = Callable[[Collection[str]], None]
"""Called with the ids of changed runs, and with paths of the API for changes of other things: `/nodes`."""


class Wakeup(StrEnum):
    """The loops that can be woken; each engine has its own of the last three."""

    STAGE = "stage"
    ESTIMATE = "estimate"
    SEARCH = "search"
    SCHEDULE = "schedule"
    LEASE = "lease"
    NOTIFY = "notify"
    LIMITS = "limits"
    BURST = "burst"
    DELIVER = "deliver"
    RECONCILE = "reconcile"
    REAP = "reap"


class EventBus:
    """Wakes loops and listeners; called from any thread.

    A notice is a hint: loops also look by themselves.
    """

    def __init__(self) -> None:
        self._events: dict[tuple[Wakeup, str], threading.Event] = {}
        self._listeners: dict[object, Listener] = {}
        self._lock = threading.Lock()

    def notify(self, wakeup: Wakeup, engine: str = "") -> None:
        """Wake a loop (that of `engine` if each engine has one). A repeated wakeup has no further effect."""
        event = self._events.get((wakeup, engine)) or self.event(wakeup, engine)
        if not event.is_set():
            event.set()

    def event(self, wakeup: Wakeup, engine: str = "") -> threading.Event:
        """The event that a loop waits for, and clears before its pass."""
        return self._events.setdefault((wakeup, engine), threading.Event())

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, from the thread that made it; returns how to stop that."""
        key = object()
        with self._lock:
            self._listeners[key] = listener

        def unsubscribe() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        return unsubscribe

    def tell(self, changed: Collection[str]) -> None:
        """Call every listener with these changed runs and other things."""
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener(changed)
