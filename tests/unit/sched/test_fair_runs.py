"""Fair share between runs (`share_by: run`): weights count between runs of one owner, experiments as one."""

from __future__ import annotations

import pytest

from facts import NOW, candidate, gang, holding, nodes
from living import Living
from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import Policy, Pool, ShareBy
from tarmac.model.codec import replace
from tarmac.sched import Ledger, Snapshot
from tarmac.sched.policies.fairness import LEAD_SHARE

RULES = Pool(
    cluster="local",
    policy=Policy.FAIR_SHARE,
    share_by=ShareBy.RUN,
    preemption=True,
    guaranteed_s=60.0,
    half_life_s=1e9,
)
LONG_S = 1_000_000.0


def shares(life, *groups):
    """What the runs of each group have held of all that they held, in the order of the groups."""
    held = dict.fromkeys(groups, 0.0)
    for stay in life.stays:
        held[next(group for group in groups if stay.run_id.startswith(group))] += stay.slots * (
            stay.ended_at - stay.began_at
        )
    return [each / sum(held.values()) for each in held.values()]


@pytest.mark.parametrize("weight", [1.0, 2.0, 4.0])
def test_runs_of_one_owner_share_by_their_weights(weight):
    runs = [(NOW, candidate("a", gang(2)), LONG_S), (NOW, candidate("b", gang(2), weight=weight), LONG_S)]
    life = Living(nodes(1, 2), RULES, runs, doubting=True).run(until=NOW + 100_000.0)
    found, _ = shares(life, "a", "b")
    assert found == pytest.approx(1 / (1 + weight), abs=LEAD_SHARE)


def test_between_users_weights_of_runs_of_one_change_nothing():
    """What `share_by: user` says: the one that came first goes on."""
    runs = [(NOW, candidate("a", gang(2)), LONG_S), (NOW + 1, candidate("b", gang(2), weight=4.0), LONG_S)]
    life = Living(nodes(1, 2), replace(RULES, share_by=ShareBy.USER), runs).run(until=NOW + 100_000.0)
    assert life.starts == [(NOW, "a")]


def trials(group, count, lasting_s, **changes):
    return [
        (NOW, candidate(f"{group}-{number:03}", gang(1), group=group, **changes), lasting_s)
        for number in range(count)
    ]


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_an_experiment_is_one_however_many_trials_it_has(weight):
    """Determined's over experiments: many trials waiting have as much as a few, short ones as long ones."""
    runs = [*trials("x", 400, 300.0), *trials("y", 4, LONG_S, weight=weight)]
    life = Living(nodes(1, 4), RULES, runs).run(until=NOW + 20_000.0)
    life.stays += [  # what is held still
        type(life.stays[0])(run_id, held.granted_at, life.now, held.allocation.slots)
        for run_id, held in life.holdings.items()
    ]
    found, _ = shares(life, "x", "y")
    assert found == pytest.approx(1 / (1 + weight), abs=LEAD_SHARE)


def first_of(*queue, usage=(), rules=RULES):
    facts = Snapshot(pools=(rules,), nodes=nodes(1, 1), queue=queue, holdings=(), usage=usage)
    return Ledger(facts).plan(NOW).placements[0].run_id


def test_what_ended_members_used_stays_with_their_group():
    """A run by itself is known by its own record; another's usage is not held against it."""
    used = UsageBucket(
        cluster="local", pool="default", user="ada", project="p", group="x", hour_at=NOW, slot_s=9_000.0
    )
    alone = replace(used, group="")
    new, trial = candidate("z", gang(1)), candidate("x-1", gang(1), group="x")
    assert first_of(new, trial) == "x-1", "alike, the first in order"
    assert first_of(new, trial, usage=(used,)) == "z"
    assert first_of(new, trial, usage=(alone,)) == "x-1"
    assert first_of(candidate("a", gang(1), attained_slot_s=9_000.0), trial) == "x-1"
    heavy, light = (
        candidate(name, gang(1), attained_slot_s=9_000.0, weight=at) for name, at in (("h", 2.0), ("g", 1.0))
    )
    assert first_of(heavy, light) == "h", "what it used counts half"


def test_what_a_run_used_fades_from_when_it_queued():
    rules = replace(RULES, half_life_s=100.0)
    old = candidate("b", gang(1), attained_slot_s=9_000.0, queued_at=NOW - 1000.0)
    new = candidate("a", gang(1), attained_slot_s=100.0, queued_at=NOW)
    assert first_of(old, new, rules=rules) == "b"
    assert first_of(old, new) == "a"


def test_a_run_that_holds_slots_is_held_against_what_it_used_before():
    """Else one that was preempted would begin anew each time."""
    held = holding(
        "old", {"n1": [0]}, attained_slot_s=90_000.0, queued_at=NOW - 100.0, granted_at=NOW - 100.0
    )
    waiting = candidate("new", gang(1), attained_slot_s=50_000.0)
    facts = Snapshot(pools=(RULES,), nodes=nodes(1, 1), queue=(waiting,), holdings=(held,))
    assert [item.run_id for item in Ledger(facts).plan(NOW).preemptions] == ["old"]
    fresh = replace(held, candidate=replace(held.candidate, attained_slot_s=0.0))
    assert not Ledger(replace(facts, holdings=(fresh,))).plan(NOW).preemptions
