"""The usage known to this server: read once, then updated. Owned by `control_state`.

Additions by its own commits are recorded when they are made. If another server has ended attempts, the
affected hours are read again, and the difference is that server's addition.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.control.state.facts import usage_fact
from tarmac.model.changes import HOUR_S, RunStep, UsageBucket, usage_of
from tarmac.model.ports import Store
from tarmac.model.record import replace
from tarmac.sched import Usage

HALF_LIVES = 10
"""The number of half-lives after which usage counts less than a thousandth, and is not read."""

LATE_S = 2 * HOUR_S
"""The maximum time between usage and the end of its attempt: usage counts by the hour, and clocks differ."""

Key = tuple[float, str, str, str, str, str]


class UsageBook:
    """Buckets of usage by their key, and additions since the last `take`. Use it under a lock."""

    def __init__(self) -> None:
        self._known: dict[Key, float] = {}
        self._since: float | None = None
        self._added: list[UsageBucket] = []

    def load(self, store: Store, since: float) -> None:
        """Read everything from `since` on, unless it is known already."""
        if self._since is None or since < self._since:
            self._compare(store.usage(since))
            self._since = since

    def note(self, steps: Iterable[RunStep]) -> None:
        """Record the usage of steps that were just committed."""
        if self._since is None:
            return  # nothing is known yet: it will be read
        for step in steps:
            bucket = usage_of(step)
            if bucket is not None:
                self._known[bucket.key] = self._known.get(bucket.key, 0.0) + bucket.slot_s
                self._added.append(bucket)

    def catch_up(self, store: Store, since: float) -> None:
        """Record usage from other servers for attempts that ended at `since` or later."""
        if self._since is not None:
            self._compare(store.usage(max(self._since, since - LATE_S)))

    def take(self) -> list[Usage]:
        """The additions since the last call, as facts."""
        added, self._added = self._added, []
        return [usage_fact(bucket) for bucket in added]

    def _compare(self, stored: Iterable[UsageBucket]) -> None:
        for bucket in stored:
            more_slot_s = bucket.slot_s - self._known.get(bucket.key, 0.0)
            if more_slot_s > 1e-6 * bucket.slot_s:  # sums in another order differ by less
                self._known[bucket.key] = bucket.slot_s
                self._added.append(replace(bucket, slot_s=more_slot_s))
