"""What-if: one change in words, applied to a cluster or its rules, or refused with what is allowed."""

from __future__ import annotations

import pytest

from tarmac.model.cluster import Policy
from tarmac.model.errors import InvalidInput
from tarmac.simulator.changes import Situation, changed
from tarmac.simulator.playing import Rules
from tarmac.simulator.shapes import shape_of, shape_text, with_rules

CLUSTER = shape_of("4x8")
assert CLUSTER is not None
BEFORE = Situation(cluster=CLUSTER, rules=Rules(policy=Policy.PRIORITY))


@pytest.mark.parametrize(
    ("words", "shape"),
    [("nodes=+4", "8x8"), ("nodes=-3", "1x8"), ("nodes=6", "6x8"), ("policy=priority", "4x8")],
)
def test_nodes(words: str, shape: str) -> None:
    assert shape_text(changed(BEFORE, words).cluster) == shape


def test_a_policy_brings_its_custom_of_preemption() -> None:
    after = changed(BEFORE, "policy=fair_share").rules
    assert (after.policy, after.preempting) == (Policy.FAIR_SHARE, True)
    assert changed(BEFORE, "preemption=on").rules.preempting is True
    assert BEFORE.rules.preempting is False


def test_rules_of_a_cluster_stay_as_they_are_unless_they_are_changed() -> None:
    own = Rules(policy=None)
    assert own.preempting is None
    ruled = with_rules(with_rules(BEFORE.cluster, Policy.FAIR_SHARE, preemption=True), None, preemption=None)
    assert [(pool.policy, pool.preemption) for pool in ruled.pools] == [(Policy.FAIR_SHARE, True)]


def test_shares() -> None:
    (pool,) = changed(BEFORE, "shares=alice:2,bob:0.5").cluster.pools
    assert pool.shares == {"alice": 2.0, "bob": 0.5}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nodes=-4", "0 nodes would be left of 4"),
        ("nodes=four", "write +4, -2 or a number"),
        ("policy=fair_shar", "did you mean fair_share?"),
        ("shares=alice", "NAME:WEIGHT"),
        ("shares=alice:0", "NAME:WEIGHT"),
        ("preemption=yes", "on or off"),
        ("node=+4", "did you mean nodes=...?"),
        ("everything", "for example nodes=+4"),
    ],
)
def test_what_is_no_change_is_refused_with_what_is(words: str, said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        changed(BEFORE, words)
    assert said in f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize("text", ["0x8", "4x0", "4", "x8", "4x8x2", "-1x8"])
def test_what_is_no_shape(text: str) -> None:
    assert shape_of(text) is None
