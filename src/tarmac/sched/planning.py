"""One pass of the scheduler, called by `control` and by simulators. docs/scheduler.md tells it in order."""

from __future__ import annotations

from tarmac.sched.deciding import Pass
from tarmac.sched.decisions import Placement, Plan, Refusal
from tarmac.sched.facts import Snapshot
from tarmac.sched.order import by_priority


def decide(snapshot: Snapshot, now: float) -> Plan:
    """What starts now and what is refused; the order of the snapshot's tuples does not matter."""
    current = Pass(snapshot, now)
    placements: list[Placement] = []
    refusals: list[Refusal] = []
    for candidate in by_priority(snapshot.queue):
        decision = current.decide(candidate)
        if decision is None:
            continue
        if isinstance(decision, Placement):
            placements.append(decision)
        else:
            refusals.append(decision)
    return Plan(placements=tuple(placements), refusals=tuple(refusals))
