"""Holds the scheduler's facts: the ledger, updated with changes. Owned by `control_state`.

The ledger has its own lock, and the lock of the control state is held only during the transfer of changes: a
long plan delays no submission. A holder of the lock of the control state must not ask the scheduler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from tarmac.control.state.run_cache import Change
from tarmac.model.cluster import Node, Pool
from tarmac.sched import Candidate, Ledger, Plan, Snapshot, Usage

T = TypeVar("T")

News = tuple[tuple[Pool, ...], tuple[Node, ...], Iterable[Change], Iterable[Usage]]
"""All current pools and nodes, and the changes of runs and usage since the last call."""


class SchedulerState:
    """The ledger and its lock; `news` returns the changes and is called under that lock."""

    def __init__(self, news: Callable[[], News], ledger: Ledger | None = None) -> None:
        self._news = news
        self._lock = threading.Lock()
        self._ledger = ledger if ledger is not None else Ledger()
        self._cluster: tuple[tuple[Pool, ...], tuple[Node, ...]] = ((), ())
        self._idle: Plan | None = None  # the last plan, if it decided nothing and no fact has changed since

    def plan(self, now: float) -> Plan:
        """The plan at `now`; quick if nothing changed and no decision is due."""
        with self._lock:
            if not self._take_news() and self._idle is not None:
                due_at = self._idle.next_at
                if due_at is None or now < due_at:
                    return self._idle
            decided = self._ledger.plan(now)
            nothing = not (decided.placements or decided.preemptions or decided.refusals or decided.shares)
            self._idle = decided if nothing else None
            return decided

    def ask(self, question: Callable[[Ledger], T]) -> T:
        """The answer to a question about the current facts, which it must not change."""
        with self._lock:
            if self._take_news():
                self._idle = None
            return question(self._ledger)

    def snapshot(self) -> Snapshot:
        """All current facts as a value."""
        return self.ask(Ledger.snapshot)

    def _take_news(self) -> bool:
        """Update the ledger; returns whether anything changed."""
        pools, nodes, changes, usage = self._news()
        ledger, changed = self._ledger, False
        if (pools, nodes) != self._cluster:  # the same objects, while none of them changes
            self._cluster = pools, nodes
            ledger.set_cluster(pools, nodes)
            changed = True
        for run_id, fact in changes:
            changed = True
            if fact is None:
                ledger.forget(run_id)
            elif isinstance(fact, Candidate):
                ledger.queue(fact)
            else:
                ledger.hold(fact)
        if added := list(usage):
            ledger.add_usage(added)
            changed = True
        return changed
