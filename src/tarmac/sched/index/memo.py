"""What cycles found out about a pool, for those that follow. Kept by `PoolState`, written by a cycle.

Each finding is forgotten as soon as it may be wrong: nothing here says more than the facts do, only sooner.
"""

from __future__ import annotations

from collections.abc import Hashable

from tarmac.sched.index.forecast import Forecast
from tarmac.sched.index.queues import RequestClass


class Memo:
    """`blocked` request classes do not fit what is free, and will not until something comes free.

    With the nodes now reserved, of the request classes in `windows` only runs that end by then start.
    `forecasts` hold until holdings change.
    """

    __slots__ = ("_reservations", "blocked", "forecasts", "windows")

    def __init__(self) -> None:
        self.blocked: set[RequestClass] = set()
        self.windows: dict[RequestClass, float] = {}
        self.forecasts: dict[Hashable, Forecast | None] = {}
        self._reservations: tuple[Hashable, ...] = ()

    def change(self, *, freed: bool) -> None:
        """Holdings or nodes have changed; `freed` if something may have come free."""
        self.forecasts.clear()
        if freed:
            self.free()

    def free(self) -> None:
        """Something may have come free."""
        self.blocked.clear()
        self.windows.clear()

    def reserve(self, reservations: tuple[Hashable, ...]) -> None:
        """Just these are the reservations from now on."""
        if reservations != self._reservations:
            self._reservations = reservations
            self.windows.clear()
