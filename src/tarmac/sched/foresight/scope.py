"""The facts that the start of one run depends on: what an estimate is made of. Used by `estimates`."""

from __future__ import annotations

from dataclasses import replace

from tarmac.sched.facts import Candidate, Snapshot
from tarmac.sched.ledger import Ledger
from tarmac.sched.passing.planning import Pass


def around(ledger: Ledger, run_id: str, now: float, *, behind: int) -> Snapshot:
    """The pools that could take the run, with who holds their slots and who waits for them.

    Of the queue of its home pool, only so many are taken along as are ordered before it, and `behind` of
    those after it. Raises KeyError if it is not queued.
    """
    facts = ledger.snapshot()
    home = ledger.home(run_id)
    if home is None:
        if run_id in ledger.refused or run_id in ledger.homeless:
            return facts
        raise KeyError(run_id)
    keys = set(home.queue.runs[run_id].kind.verdict.pools)
    current = Pass(ledger, now)
    queue: list[Candidate] = []
    try:
        for key in ledger.pools:
            if key not in keys:
                continue
            state = ledger.pools[key]
            state.refresh(now)
            waiting = [queued.candidate for queued in current.enter(key).in_order()]
            if state is home:
                place = next(index for index, item in enumerate(waiting) if item.run_id == run_id)
                waiting = waiting[: place + 1 + behind]
            queue += waiting
    finally:
        current.close()
    nodes = tuple(node for node in facts.nodes if (node.cluster, node.pool) in keys)
    names = {node.name for node in nodes}
    holdings = (item for item in facts.holdings if not names.isdisjoint(item.allocation.nodes))
    return replace(facts, nodes=nodes, queue=tuple(queue), holdings=tuple(holdings))
