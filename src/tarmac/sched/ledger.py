"""The facts of the scheduler, kept up to date change by change. Owned by `control.desk`.

What it answers depends on its facts alone, not on the way they came: a ledger that was kept up to date and
one that was made from its `snapshot()` plan alike.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.model.cluster import Node, Pool
from tarmac.sched.decisions import Plan
from tarmac.sched.facts import Candidate, Holding, Snapshot, Usage
from tarmac.sched.planning import decide

EMPTY = Snapshot(pools=(), nodes=(), queue=(), holdings=())


class Ledger:
    """Pools, nodes, queued runs, holdings and usage. Not for use by two threads at once."""

    def __init__(self, snapshot: Snapshot = EMPTY) -> None:
        self._pools: tuple[Pool, ...] = ()
        self._nodes: tuple[Node, ...] = ()
        self._queue: dict[str, Candidate] = {}
        self._holdings: dict[str, Holding] = {}
        self._usage: list[Usage] = []
        self.set_cluster(snapshot.pools, snapshot.nodes)
        for candidate in snapshot.queue:
            self.queue(candidate)
        for holding in snapshot.holdings:
            self.hold(holding)
        self.add_usage(snapshot.usage)

    def set_cluster(self, pools: tuple[Pool, ...], nodes: tuple[Node, ...]) -> None:
        """Take these pools and nodes for the ones there are; cheap where little has changed."""
        self._pools, self._nodes = pools, nodes

    def queue(self, candidate: Candidate) -> None:
        """Take up a queued run as it is now, whatever it was before."""
        self._holdings.pop(candidate.run_id, None)
        self._queue[candidate.run_id] = candidate

    def hold(self, holding: Holding) -> None:
        """Take up a run that holds an allocation as it is now, whatever it was before."""
        self._queue.pop(holding.candidate.run_id, None)
        self._holdings[holding.candidate.run_id] = holding

    def forget(self, run_id: str) -> None:
        """A run is neither queued nor holds anything; nothing happens if it was not known."""
        self._queue.pop(run_id, None)
        self._holdings.pop(run_id, None)

    def add_usage(self, usage: Iterable[Usage]) -> None:
        """Add what ended attempts used."""
        self._usage += usage

    def snapshot(self) -> Snapshot:
        """All facts, as a value."""
        return Snapshot(
            pools=self._pools,
            nodes=self._nodes,
            queue=tuple(self._queue.values()),
            holdings=tuple(self._holdings.values()),
            usage=tuple(self._usage),
        )

    def plan(self, now: float) -> Plan:
        """One pass: what is decided at `now`. It changes no fact; the caller records what it carries out."""
        return decide(self.snapshot(), now)
