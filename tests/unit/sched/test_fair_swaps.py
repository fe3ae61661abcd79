"""How often runs swap under fair share: as often as shares need it, and no more."""

from __future__ import annotations

from collections import Counter
from math import log

import pytest

from facts import NOW, candidate, gang, holding, nodes
from living import Living
from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import Policy, Pool
from tarmac.model.codec import replace
from tarmac.sched import Ledger, Snapshot
from tarmac.sched.policies.fairness import ADVANCE_GUARANTEES, LEAD_SHARE, SOON_SHARE

RULES = Pool(cluster="local", policy=Policy.FAIR_SHARE, preemption=True, guaranteed_s=300.0)


def swaps_of_equals(guarantees, slots=2):
    """Two users want all slots from the first moment on, each for so many guaranteed times."""
    rules = replace(RULES, half_life_s=1e9)
    runs = [
        (NOW, candidate(owner, gang(slots), owner=owner), guarantees * RULES.guaranteed_s)
        for owner in ("ada", "grace")
    ]
    return Living(nodes(1, slots), rules, runs).run()


@pytest.mark.parametrize("guarantees", [30, 300, 3000])
def test_fair_share_two_equals_swap_as_often_as_the_logarithm_of_their_length(guarantees):
    """Each time one has got ahead by as much of what it used as it was behind before."""
    life = swaps_of_equals(guarantees)
    each = log(1 / (1 - LEAD_SHARE))
    assert len(life.preemptions) <= ADVANCE_GUARANTEES + log(guarantees) / each
    assert len(life.preemptions) >= log(guarantees) / (3 * each), "but they do share"


def test_fair_share_nobody_is_left_behind_by_more_than_the_lead():
    life = swaps_of_equals(1000)
    used_s = Counter()
    for stay in sorted(life.stays, key=lambda item: item.began_at):
        used_s[stay.run_id] += stay.ended_at - stay.began_at
        less, more = sorted((used_s["ada"], used_s["grace"]))
        if len(life.ended) == 2 and stay.ended_at < min(life.ended.values()):
            late_s = SOON_SHARE * LEAD_SHARE * more  # it is looked for only so often
            bound_s = (2 * ADVANCE_GUARANTEES) * RULES.guaranteed_s + late_s
            assert (1 - LEAD_SHARE) * more - less <= bound_s


def test_fair_share_a_lead_grows_with_what_was_used():
    """A guarantee's worth is enough to be preempted for who has used little, not for who has used much."""
    rules = replace(RULES, half_life_s=1e9)
    used_s = 100_000.0
    held = holding("old", {"n1": [0]}, owner="grace", granted_at=NOW - used_s, started_at=NOW - used_s)

    def preempted(behind_s):
        usage = UsageBucket(
            cluster="local", pool="default", user="ada", project="p", hour_at=NOW, slot_s=used_s - behind_s
        )
        new = candidate("new", gang(1), owner="ada")
        facts = Snapshot(pools=(rules,), nodes=nodes(1, 1), queue=(new,), holdings=(held,), usage=(usage,))
        return bool(Ledger(facts).plan(NOW).preemptions)

    lead_s = LEAD_SHARE * used_s
    assert [preempted(behind_s) for behind_s in (2 * 300.0, 0.99 * lead_s, 1.01 * lead_s)] == [
        False,
        False,
        True,
    ]


def test_fair_share_a_narrow_run_of_somebody_with_a_wide_one_waiting_does_not_come_and_go():
    """Preempted, it would be ordered by the advance of the wide one, and take its slots back at once."""
    rules = replace(RULES, guaranteed_s=0.0)
    held = (
        holding("y-narrow", {"n1": [0]}, owner="y", granted_at=NOW, started_at=NOW),
        holding("y-half", {"n2": range(4)}, owner="y", granted_at=NOW, started_at=NOW),
    )
    queue = (
        candidate("y-wide", gang(6), owner="y", submitted_at=NOW - 9),
        candidate("z", gang(4), owner="z", submitted_at=NOW),
    )

    def victims(waiting):
        facts = Snapshot(pools=(rules,), nodes=nodes(2, 4), queue=waiting, holdings=held)
        return [item.run_id for item in Ledger(facts).plan(NOW).preemptions]

    assert victims(queue) == []
    assert victims(queue[1:]) == ["y-narrow"], "but for the wide one it would be preempted"
