"""What has been used, as far as this server knows it: read once, then kept up to date. Owned by
`control_state`.

What its own commits add is noted as they are made. When another server has ended attempts, the hours that may
have grown are read again, and the difference is what it added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tarmac.control.state.facts import usage_fact
from tarmac.model.changes import HOUR_S, RunStep, UsageBucket, usage_of
from tarmac.model.ports import Store
from tarmac.sched import Usage

HALF_LIVES = 10
"""Usage from longer ago than so many half-lives counts less than a thousandth, and is not read."""

LATE_S = 2 * HOUR_S
"""How much earlier usage may count than its attempt ended: it counts by the hour, and clocks differ."""

Key = tuple[float, str, str, str, str, str]


class UsageBook:
    """Buckets of usage by their key, and what has been added since it was last taken. Use it under a lock."""

    def __init__(self) -> None:
        self._known: dict[Key, float] = {}
        self._since: float | None = None
        self._added: list[UsageBucket] = []

    def load(self, store: Store, since: float) -> None:
        """Read everything from `since` on; nothing happens if as much is known."""
        if self._since is None or since < self._since:
            self._compare(store.usage(since))
            self._since = since

    def note(self, steps: Iterable[RunStep]) -> None:
        """Take up what steps added that were just committed."""
        if self._since is None:
            return  # nothing is known yet: it will be read
        for step in steps:
            bucket = usage_of(step)
            if bucket is not None:
                self._known[bucket.key] = self._known.get(bucket.key, 0.0) + bucket.slot_s
                self._added.append(bucket)

    def catch_up(self, store: Store, since: float) -> None:
        """Take up what other servers added for attempts that ended at `since` or later."""
        if self._since is not None:
            self._compare(store.usage(max(self._since, since - LATE_S)))

    def take(self) -> list[Usage]:
        """What was added since the last time, as facts."""
        added, self._added = self._added, []
        return [usage_fact(bucket) for bucket in added]

    def _compare(self, stored: Iterable[UsageBucket]) -> None:
        for bucket in stored:
            more_slot_s = bucket.slot_s - self._known.get(bucket.key, 0.0)
            if more_slot_s > 1e-6 * bucket.slot_s:  # sums in another order differ by less
                self._known[bucket.key] = bucket.slot_s
                self._added.append(replace(bucket, slot_s=more_slot_s))
