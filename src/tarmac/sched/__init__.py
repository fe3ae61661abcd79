"""The scheduler: facts in, decision out. `plan(snapshot, now)` is called by `control`, and by the simulator.

Pure and deterministic: standard library only, no clock, no randomness, every sort ends in a unique id.
"""

from tarmac.sched.decisions import Placement, Plan, Preemption, Reason, ReasonCode, Refusal, Waiting
from tarmac.sched.explain import explain
from tarmac.sched.facts import Candidate, Demand, Holding, Snapshot
from tarmac.sched.planning import plan

__all__ = [
    "Candidate",
    "Demand",
    "Holding",
    "Placement",
    "Plan",
    "Preemption",
    "Reason",
    "ReasonCode",
    "Refusal",
    "Snapshot",
    "Waiting",
    "explain",
    "plan",
]
