"""While preempted runs are leaving, what is free already is reserved for the run they leave for (I12)."""

from __future__ import annotations

from facts import candidate, gang, holding, nodes, snapshot, started
from tarmac.model.cluster import LOCAL_CLUSTER, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Share
from tarmac.sched import Snapshot, plan

PERIOD_AT = 1_000_000.0
NOW = PERIOD_AT + 1000.0
RULES = Pool(cluster=LOCAL_CLUSTER, period_s=2000.0, turn_s=90.0)


def share(used_s: float) -> Share:
    return Share(period_at=PERIOD_AT, allotted_s=600.0, rank=0, used_s=used_s)


def test_i12_nobody_slips_in_between_a_victim_that_left_and_one_that_still_leaves() -> None:
    """A gang of two nodes is owed its block; one victim is gone and queues again, the other still leaves."""
    owed = candidate("owed", gang(4), mode=Mode.INTERRUPTIBLE, share=share(0.0), submitted_at=1.0)
    gone = candidate("gone", gang(2), mode=Mode.INTERRUPTIBLE, share=share(700.0), submitted_at=2.0)
    leaves = holding("leaves", {"n1": (0, 1)}, mode=Mode.INTERRUPTIBLE, share=share(0.0), leaving=True)
    facts = snapshot(nodes(2, slots=2), [owed, gone], [leaves])
    assert started(plan(_ruled(facts), NOW)) == []
    both_left = snapshot(nodes(2, slots=2), [owed, gone])
    assert started(plan(_ruled(both_left), NOW)) == ["owed"]


def test_i12_what_cannot_serve_who_is_owed_is_still_used() -> None:
    """Nothing is kept where nobody is leaving: the free node is for whom it fits."""
    owed = candidate("owed", gang(4), mode=Mode.INTERRUPTIBLE, share=share(0.0), submitted_at=1.0)
    other = candidate("other", gang(2), mode=Mode.INTERRUPTIBLE, share=share(700.0), submitted_at=2.0)
    batch = holding("batch", {"n1": (0, 1)})
    assert started(plan(_ruled(snapshot(nodes(2, slots=2), [owed, other], [batch])), NOW)) == ["other"]


def _ruled(facts: Snapshot) -> Snapshot:
    return replace(facts, pools=(RULES,))
