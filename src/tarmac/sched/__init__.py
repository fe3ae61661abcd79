"""The scheduler turns facts into decisions. `control` and the simulator each keep a `Ledger`.

The package is pure and deterministic: it uses the standard library only, no clock and no randomness, and
every sort ends in a unique id.
"""

from tarmac.sched.cycle.cycle import Ledger
from tarmac.sched.decisions import Placement, Plan, Preemption, PreemptionReason, Refusal, ShareGrant, Waiting
from tarmac.sched.estimate.durations import Durations, Finished
from tarmac.sched.estimate.estimates import (
    MOST_ESTIMATED,
    Scope,
    estimates,
    scope_of_first,
    scope_of_run,
    too_far,
)
from tarmac.sched.estimate.simulation import Estimate, EstimateBasis
from tarmac.sched.explain.explain import explain
from tarmac.sched.explain.listing import WHOLE, Part, PoolPage, QueuePlace, pages
from tarmac.sched.facts import Candidate, Demand, Holding, Snapshot
from tarmac.sched.index.forecast import ends
from tarmac.sched.index.limits import LimitBook
from tarmac.sched.placing.reasons import duration


def plan(snapshot: Snapshot, now: float) -> Plan:
    """Return the plan of a new ledger of these facts."""
    return Ledger(snapshot).plan(now)


__all__ = [
    "MOST_ESTIMATED",
    "WHOLE",
    "Candidate",
    "Demand",
    "Durations",
    "Estimate",
    "EstimateBasis",
    "Finished",
    "Holding",
    "Ledger",
    "LimitBook",
    "Part",
    "Placement",
    "Plan",
    "PoolPage",
    "Preemption",
    "PreemptionReason",
    "QueuePlace",
    "Refusal",
    "Scope",
    "ShareGrant",
    "Snapshot",
    "Waiting",
    "duration",
    "ends",
    "estimates",
    "explain",
    "pages",
    "plan",
    "scope_of_first",
    "scope_of_run",
    "too_far",
]
