"""Where a run is put: one node, then the fewest; equal splits; replicas packed; all or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import NOW, candidate, gang, holding, layout, node, nodes, replicas, snapshot, started
from tarmac.model.cluster import Packing, Pool
from tarmac.model.codec import replace
from tarmac.model.progress import CauseCode
from tarmac.sched import plan


def one(where, *demands, holdings=()):
    """The layout of a single run on these nodes, or None if it does not start."""
    made = plan(snapshot(where, [candidate("r", *demands)], holdings), NOW)
    return layout(made, "r") if made.placements else None


@pytest.mark.parametrize(
    ("where", "asked", "expected"),
    [
        pytest.param(nodes(3), gang(4), [("n1", 4)], id="one node is enough"),
        pytest.param((node("n1", 8), node("n2", 4)), gang(4), [("n2", 4)], id="best fit: the smaller node"),
        pytest.param(nodes(3), gang(8), [("n1", 8)], id="a whole node"),
        pytest.param(nodes(3), gang(16), [("n1", 8), ("n2", 8)], id="the fewest whole nodes"),
        pytest.param(
            nodes(12, 6), gang(48), [(f"n{i}", 6) for i in range(1, 9)], id="48 slots on 12x6: 8 nodes"
        ),
        pytest.param(nodes(3, 4), gang(6), [("n1", 3), ("n2", 3)], id="equal parts of nodes"),
        pytest.param(
            nodes(2, 4), gang(7, uneven=True), [("n1", 4), ("n2", 3)], id="unequal: no equal split fits"
        ),
        pytest.param(
            nodes(12, 6), gang(7, uneven=True), [("n1", 6), ("n2", 1)], id="unequal rather than scattered"
        ),
        pytest.param(
            nodes(12, 6), gang(9, uneven=True), [(f"n{i}", 3) for i in (1, 2, 3)], id="equal on a node more"
        ),
        pytest.param(
            (node("n1", 1), node("n2", 8)),
            gang(9, uneven=True),
            [("n2", 8), ("n1", 1)],
            id="unequal: rank 0 has most",
        ),
        pytest.param(
            nodes(7, 4), gang(7), [(f"n{i}", 1) for i in range(1, 8)], id="a prime number, one each"
        ),
    ],
)
def test_slots_in_all_are_split_equally_over_the_fewest_nodes(where, asked, expected):
    assert one(where, asked) == expected


def test_an_equal_split_is_waited_for_when_one_is_possible_at_all():
    where = nodes(2, 4)
    held = [holding("h", {"n1": [0, 1]})]
    assert one(where, gang(6), holdings=held) is None, "2 + 4 is free, but 3 + 3 is possible once h has ended"
    assert one(where, gang(6)) == [("n1", 3), ("n2", 3)]


def test_a_run_that_fits_no_single_node_now_is_split_over_what_is_free():
    held = [holding("h", {"n1": range(6), "n2": range(6)})]
    assert one(nodes(2), gang(4), holdings=held) == [("n1", 2), ("n2", 2)]


def test_c2_four_replicas_of_two_share_one_node_of_eight():
    made = plan(snapshot(nodes(2), [candidate("r", replicas(4, 2))]), NOW)
    placements = made.placements[0].allocation.placements
    assert [(placement.replica, placement.node, placement.slots) for placement in placements] == [
        (0, "n1", (0, 1)),
        (1, "n1", (2, 3)),
        (2, "n1", (4, 5)),
        (3, "n1", (6, 7)),
    ]


@pytest.mark.parametrize(
    ("where", "demand", "expected"),
    [
        pytest.param(
            nodes(3), replicas(5, 2), [("n1", 2)] * 4 + [("n2", 2)], id="one node full, then the rest"
        ),
        pytest.param(
            nodes(3), replicas(3, 5), [("n1", 5), ("n2", 5), ("n3", 5)], id="one each if two do not fit"
        ),
        pytest.param(
            (node("n1", 2), node("n2", 8)),
            replicas(5, 2),
            [("n1", 2)] + [("n2", 2)] * 4,
            id="tail on best fit",
        ),
        pytest.param(
            (node("n1", 8, cpus=4), node("n2", 8, cpus=32)),
            replicas(2, 1, cpus=4),
            [("n2", 1)] * 2,
            id="cpus count",
        ),
        pytest.param(
            (node("n1", 0, cpus=2),), replicas(4, 0, cpus=0.5), [("n1", 0)] * 4, id="cpus in fractions"
        ),
        pytest.param((node("n1", 0, cpus=1),), replicas(10, 0, cpus=0.1), [("n1", 0)] * 10, id="rounding"),
        pytest.param(
            (node("n1", 4, memory_bytes=10), node("n2", 4, memory_bytes=20)),
            replicas(2, 1, memory_bytes=10),
            [("n2", 1)] * 2,
            id="memory counts",
        ),
    ],
)
def test_c2_replicas_are_packed_onto_the_fewest_nodes(where, demand, expected):
    assert one(where, demand) == expected


def test_c3_a_role_without_a_request_goes_to_one_node_and_uses_nothing():
    full = [holding("h", {"n1": range(8)})]
    made = plan(snapshot(nodes(1), [candidate("r", replicas(3)), candidate("s", replicas(1))], full), NOW)
    assert layout(made, "r") == [("n1", 0)] * 3
    assert layout(made, "s") == [("n1", 0)]


def test_c3_replicas_without_a_request_share_one_node_and_runs_spread_over_nodes():
    made = plan(snapshot(nodes(3), [candidate(f"r{i}", replicas(2)) for i in range(6)]), NOW)
    places = [layout(made, f"r{i}") for i in range(6)]
    assert [place[0][0] for place in places] == ["n1", "n2", "n3"] * 2
    assert all(len(set(place)) == 1 for place in places)


def test_c3_a_role_without_a_request_sits_beside_the_others_of_its_run():
    held = [holding("h", {"n1": range(8)})]
    made = plan(snapshot(nodes(3), [candidate("r", replicas(1, role="log"), gang(16))], held), NOW)
    assert layout(made, "r") == [("n2", 0), ("n2", 8), ("n3", 8)]


def test_a_gang_of_several_roles_is_placed_whole_or_not_at_all():
    roles = (replicas(2, 3, role="a"), replicas(3, 2, role="b"))
    assert sorted(one(nodes(2, 6), *roles)) == [("n1", 3), ("n1", 3), ("n2", 2), ("n2", 2), ("n2", 2)]
    assert one(nodes(2, 6), *roles, holdings=[holding("h", {"n1": [0]})]) is None


def test_a_gang_of_several_roles_on_one_node_if_it_fits():
    assert one(nodes(3), gang(4, role="a"), replicas(2, 2, role="b")) == [("n1", 4), ("n1", 2), ("n1", 2)]


@pytest.mark.parametrize(
    ("sizes", "roles", "expected"),
    [
        pytest.param(
            (6, 7),
            (replicas(1, 4, role="a"), replicas(3, 3, role="b")),
            [("n1", 3), ("n1", 3), ("n2", 3), ("n2", 4)],
            id="the biggest on the tightest node would be wrong",
        ),
        pytest.param(
            (6, 8),
            (replicas(1, 6, role="a"), replicas(2, 4, role="b")),
            [("n1", 6), ("n2", 4), ("n2", 4)],
            id="the biggest on the emptiest node would be wrong",
        ),
    ],
)
def test_a_gang_that_greedy_packing_misses_is_found(sizes, roles, expected):
    where = tuple(node(f"n{index}", slots) for index, slots in enumerate(sizes, start=1))
    assert sorted(one(where, *roles)) == expected


def test_a_big_gang_of_several_roles_is_packed_as_densely_as_one_role():
    placed = one(nodes(60), replicas(200, 2, role="a"), replicas(1, 8, role="b"))
    assert [slots for _, slots in placed] == [2] * 200 + [8]
    assert len({name for name, _ in placed}) == 51


def test_an_uneven_split_leaves_room_for_the_other_roles():
    """5 + 4 slots for 3 and 6: split in halves there is no room for the 3; 5 + 1 leaves it."""
    where = (node("n1", 5), node("n2", 4))
    assert one(where, replicas(1, 3, role="a"), gang(6, role="b", uneven=True)) in (
        [("n2", 3), ("n1", 5), ("n2", 1)],
        [("n1", 3), ("n2", 4), ("n1", 2)],
    )


def test_slots_are_the_lowest_free_ones():
    held = [holding("h", {"n1": [0, 2]})]
    made = plan(snapshot(nodes(1), [candidate("r", gang(3))], held), NOW)
    assert made.placements[0].allocation.placements[0].slots == (1, 3, 4)


def test_node_ranks_follow_the_names_of_nodes():
    made = plan(snapshot(nodes(12, 1), [candidate("r", gang(11))]), NOW)
    assert made.placements[0].allocation.nodes == tuple(f"n{i}" for i in range(1, 12))


def test_a_holding_on_a_node_that_is_gone_is_ignored():
    held = [holding("h", {"gone": [0, 1], "n1": [0, 99]})]
    assert one(nodes(1), gang(7), holdings=held) == [("n1", 7)]


def test_a_placement_carries_the_version_it_was_decided_on():
    made = plan(snapshot(nodes(1), [candidate("r", gang(1), seq=17)]), NOW)
    assert [(item.run_id, item.seq) for item in made.placements] == [("r", 17)]


def test_what_fits_together_starts_together():
    made = plan(snapshot(nodes(2), [candidate(f"r{i}", gang(4)) for i in range(5)]), NOW)
    assert started(made) == ["r0", "r1", "r2", "r3"]


def test_a_gang_lies_in_one_cluster_and_one_pool():
    where = (node("a1", 4, pool="a"), node("b1", 4, pool="b"), node("x1", 4, cluster="x"))
    made = plan(snapshot(where, [candidate("r", gang(8))]), NOW)
    assert [(refusal.run_id, refusal.code) for refusal in made.refusals] == [("r", CauseCode.NEVER_FITS)]


def spread(where, *demands, holdings=()):
    """The layout of a single run in a pool that spreads, or None if it does not start."""
    rules = Pool(cluster="local", packing=Packing.SPREAD)
    facts = replace(snapshot(where, [candidate("r", *demands)], holdings), pools=(rules,))
    made = plan(facts, NOW)
    return layout(made, "r") if made.placements else None


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        pytest.param(gang(2), [("n3", 2)], id="the emptiest node"),
        pytest.param(gang(8), [("n3", 8)], id="still the fewest nodes"),
        pytest.param(gang(12), [("n2", 6), ("n3", 6)], id="of equal choices the emptiest"),
        pytest.param(replicas(2, 2), [("n2", 2), ("n3", 2)], id="dealt out: n2 has as much as n3 has left"),
        pytest.param(replicas(4, 2), [("n2", 2)] * 2 + [("n3", 2)] * 2, id="dealt out evenly"),
        pytest.param(replicas(7, 2), [("n1", 2)] + [("n2", 2)] * 3 + [("n3", 2)] * 3, id="as many as fit"),
        pytest.param(replicas(9, 2), None, id="more than fit now"),
    ],
)
def test_a_pool_may_spread_its_runs(demand, expected):
    held = [holding("h1", {"n1": range(5)}), holding("h2", {"n2": range(2)})]
    assert spread(nodes(3), demand, holdings=held) == expected


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.0, 2.0, 4.0])), min_size=1, max_size=5),
    st.integers(1, 9),
    st.integers(1, 3),
    st.sampled_from([0.0, 1.0]),
)
def test_spreading_places_what_packing_does(sizes, count, each, cpus):
    where = tuple(node(f"n{index}", slots, cpus=has) for index, (slots, has) in enumerate(sizes))
    demand = replicas(count, each, cpus=cpus)
    assert (spread(where, demand) is None) == (one(where, demand) is None)


def test_excluded_hosts_are_not_used():
    target = replace(candidate("r").target, excluded=("n1", "n3"))
    made = plan(snapshot(nodes(3), [candidate("r", gang(4), target=target)]), NOW)
    assert layout(made, "r") == [("n2", 4)]
    (refusal,) = plan(snapshot(nodes(3), [candidate("r", gang(16), target=target)]), NOW).refusals
    assert (refusal.code, refusal.largest) == (CauseCode.NEVER_FITS, "slots: 8")


def test_an_unequal_split_is_made_only_if_asked_and_the_refusal_says_so():
    (refusal,) = plan(snapshot(nodes(2, 4), [candidate("r", gang(7))]), NOW).refusals
    assert refusal.code is CauseCode.NEVER_FITS
    assert refusal.largest == "the same with `uneven: true`, split unequally; or slots: 6"
    (refusal,) = plan(snapshot(nodes(2, 4), [candidate("r", gang(9))]), NOW).refusals
    assert refusal.largest == "slots: 8", "nor would it fit unequally"
