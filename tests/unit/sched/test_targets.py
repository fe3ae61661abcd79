"""Which nodes a run may use: its target, its slot type, the state of nodes, and rehearsals."""

from __future__ import annotations

import pytest

from facts import NOW, candidate, gang, layout, node, nodes, replicas, snapshot, started
from tarmac.model.cluster import NodeState, Pool, rehearsal_cluster
from tarmac.model.progress import CauseCode
from tarmac.model.resources import ReasonCode
from tarmac.model.spec import Target
from tarmac.sched import Waiting, explain, plan

MIXED = (
    node("a1", 4, shard="east", slot_type="h100", hostname="host-a1"),
    node("a2", 4, shard="west", slot_type="h100", hostname="host-a2"),
    node("b1", 4, pool="big", slot_type="rtx3090", hostname="host-b1"),
    node("x1", 4, cluster="x", slot_type="h100", hostname="host-x1"),
)


@pytest.mark.parametrize(
    ("target", "slot_type", "expected"),
    [
        pytest.param(Target(), None, "a1", id="anywhere: the first in order"),
        pytest.param(Target(cluster="x"), None, "x1", id="cluster"),
        pytest.param(Target(pool="big"), None, "b1", id="pool"),
        pytest.param(Target(shard="west"), None, "a2", id="shard"),
        pytest.param(
            Target(hostnames=("host-a2", "host-b1")), None, "a2", id="hostnames: the default pool first"
        ),
        pytest.param(Target(hostnames=("host-a2",)), None, "a2", id="hostname"),
        pytest.param(Target(), "rtx3090", "b1", id="slot type"),
        pytest.param(Target(), "gpu", "a1", id="any GPU"),
        pytest.param(Target(cluster="x"), "rtx3090", None, id="nothing matches both"),
        pytest.param(Target(shard="west", hostnames=("host-a1",)), None, None, id="host in another shard"),
    ],
)
def test_c4_a_target_narrows_the_nodes(target, slot_type, expected):
    made = plan(snapshot(MIXED, [candidate("r", gang(2, slot_type=slot_type), target=target)]), NOW)
    if expected is None:
        assert [refusal.code for refusal in made.refusals] == [CauseCode.NEVER_FITS]
    else:
        assert layout(made, "r") == [(expected, 2)]


@pytest.mark.parametrize(
    ("wanted", "offered", "fits"),
    [
        ("gpu", "cpu", False),
        ("gpu", "a100_40gb", True),
        ("gpu", "gpu", True),
        ("cpu", "cpu", True),
        ("cpu", "h100", False),
        ("a100", "a100_40gb", True),
        ("a100", "a100-80gb", True),
        ("a100", "a1000_40gb", False),
        ("a100_80gb", "a100_40gb", False),
        ("a100_80gb", "a100", False),
        ("h100_80gb", "h100", True),
        ("h100", "h100_80gb", True),
        ("h100", "h100_nvl", False),
    ],
)
def test_a_slot_type_asks_for_every_type_that_it_means(wanted, offered, fits):
    """A run that wants some GPU never gets a slot without; a type without its memory is one of any."""
    where = (node("n1", 4, slot_type=offered),)
    made = plan(snapshot(where, [candidate("r", gang(2, slot_type=wanted))]), NOW)
    assert [refusal.run_id for refusal in made.refusals] == ([] if fits else ["r"])
    assert [placement.run_id for placement in made.placements] == (["r"] if fits else [])


def test_an_untyped_request_for_gpus_passes_idle_slots_without_one():
    """On a node with slots for no GPU, and busy GPUs beside it, the run waits for those."""
    where = (node("n1", 8, slot_type="cpu"), node("n2", 2, cluster="x", slot_type="h100"))
    runs = [candidate("a", gang(2, slot_type="gpu")), candidate("b", gang(1, slot_type="gpu"))]
    made = plan(snapshot(where, runs), NOW)
    assert layout(made, "a") == [("n2", 2)]
    assert [placement.run_id for placement in made.placements] == ["a"]
    assert not made.refusals


def test_c4_every_role_of_a_gang_gets_its_own_slot_type():
    roles = (replicas(1, 2, role="a", slot_type="h100"), replicas(1, 2, role="b", slot_type="t4"))
    where = (node("n1", 2, slot_type="h100"), node("n2", 2, slot_type="t4"))
    assert layout(plan(snapshot(where, [candidate("r", *roles)]), NOW), "r") == [("n1", 2), ("n2", 2)]


@pytest.mark.parametrize(
    ("target", "slot_type", "code"),
    [
        (Target(cluster="nowhere"), None, ReasonCode.NO_SUCH_CLUSTER),
        (Target(pool="nowhere"), None, ReasonCode.OTHER_POOL),
        (Target(shard="nowhere"), None, ReasonCode.OTHER_SHARD),
        (Target(hostnames=("nowhere",)), None, ReasonCode.OTHER_HOSTNAME),
        (Target(), "tpu", ReasonCode.OTHER_SLOT_TYPE),
    ],
)
def test_c4_what_no_node_matches_is_refused_with_the_reason_per_node(target, slot_type, code):
    where = nodes(2, slot_type="h100")
    (refusal,) = plan(
        snapshot(where, [candidate("r", gang(1, slot_type=slot_type), target=target)]), NOW
    ).refusals
    assert {reason.code for reason in refusal.reasons} == {code}
    assert [reason.node for reason in refusal.reasons] == (
        [None] if code is ReasonCode.NO_SUCH_CLUSTER else ["n1", "n2"]
    )
    assert refusal.largest is None


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (NodeState.DRAINED, ReasonCode.NODE_DRAINED),
        (NodeState.DOWN, ReasonCode.NODE_DOWN),
        (NodeState.LOST, ReasonCode.NODE_LOST),
    ],
)
def test_a_node_that_takes_no_work_is_waited_for(state, code):
    facts = snapshot((node("n1", state=state),), [candidate("r", gang(8)), candidate("s", replicas(1))])
    made = plan(facts, NOW)
    assert (made.placements, made.refusals) == ((), ())
    waiting = explain(facts, "r", NOW)
    assert isinstance(waiting, Waiting)
    assert [reason.code for reason in waiting.reasons] == [code]


def test_nodes_of_a_rehearsal_are_for_the_run_that_names_it():
    rehearsal = rehearsal_cluster("r1")
    where = (node("own", 2, cluster=rehearsal), node("n1", 1))
    queue = [
        candidate("anywhere", gang(2)),
        candidate("here", gang(2), target=Target(cluster=rehearsal)),
        candidate("small", gang(1)),
    ]
    made = plan(snapshot(where, queue), NOW)
    assert layout(made, "here") == [("own", 2)]
    assert layout(made, "small") == [("n1", 1)]
    assert [refusal.run_id for refusal in made.refusals] == ["anywhere"]


def test_a_cluster_that_has_not_reported_nodes_is_waited_for():
    pools = (Pool(cluster="slow"),)
    queue = [candidate("r", gang(64), target=Target(cluster="slow")), candidate("s", gang(64))]
    for where in ((), nodes(1)):
        facts = snapshot(where, queue)
        facts = type(facts)(pools=pools, nodes=facts.nodes, queue=facts.queue, holdings=())
        made = plan(facts, NOW)
        assert started(made) == []
        assert made.refusals == ()
    waiting = explain(facts, "r", NOW)
    assert [reason.code for reason in waiting.reasons] == [ReasonCode.NO_NODES]
    assert waiting.unblocked_by == "It starts when its cluster reports nodes that take it."


def test_nobody_is_refused_before_any_node_is_known():
    made = plan(
        snapshot((), [candidate("r", gang(1)), candidate("s", gang(1), target=Target(cluster="x"))]), NOW
    )
    assert made.refusals == ()
