"""Rehearsals and the clusters they stand for; records of earlier versions are still read."""

from __future__ import annotations

from tarmac.model.cluster import Cluster, NodeGroup, Pool
from tarmac.model.codec import decode, encode
from tarmac.model.spec import Rehearsal


def test_a_rehearsal_of_nodes_and_slots_is_a_cluster_of_one_kind_of_node() -> None:
    cluster = Rehearsal(nodes=12, slots_per_node=6).cluster("r1")
    assert cluster == Cluster(name="rehearsal-r1", groups=(NodeGroup(nodes=12, slots=6),))


def test_a_described_one_has_its_shape_and_rules_under_the_name_of_the_run() -> None:
    groups = (NodeGroup(nodes=1, slots=2, pool="a"), NodeGroup(nodes=2, slots=4, slot_type="h100"))
    shape = Cluster(name="lab", groups=groups, pools=(Pool(name="a", cluster="lab", turn_s=5.0),))
    cluster = Rehearsal(described=shape).cluster("r1")
    assert (cluster.name, cluster.groups) == ("rehearsal-r1", groups)
    assert cluster.pools == (Pool(name="a", cluster="rehearsal-r1", turn_s=5.0),)


def test_a_record_from_before_rehearsals_could_be_described_is_read() -> None:
    old = {"nodes": 2, "slots_per_node": 1}
    assert decode(Rehearsal, old) == Rehearsal(nodes=2, slots_per_node=1)
    assert encode(decode(Rehearsal, old)) == old
