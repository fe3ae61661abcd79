"""Clusters over HTTP: the real client, the routes, the control plane; every refusal with its reason."""

from __future__ import annotations

import pytest

from served import HELLO, Served
from tarmac import api
from tarmac.model.errors import InvalidInput, NotFound, Refused

SITE = """\
nodes:
  - {count: 3, slots: 8, slot_type: h100, cpus: 64, memory: 512GiB, pool: big, shard: left, prefix: a}
  - {hostnames: [b], slots: 4, shard: right}
pools:
  big: {policy: fair_share, shares: {ada: 2}, turn: 5s}
"""


def test_a_described_cluster_is_added_shown_and_removed(plane: Served) -> None:
    client = plane.client()
    added = client.add_cluster(SITE, filename="/home/ada/site.yaml")
    assert (added.name, added.engine, added.kind, added.nodes) == ("site", "sim", "added", 4)
    assert (added.slots, added.slots_used, added.slots_free) == (28, 0, 28)
    big, default = added.pools
    assert (big.name, big.nodes, big.slots, big.policy, big.turn_s) == (
        "big",
        3,
        24,
        "fair_share",
        5.0,
    )
    assert big.shares == {"ada": 2.0}
    assert (default.name, default.policy) == ("default", "priority")
    assert added.node_kinds[0] == api.NodeKind(
        pool="big",
        shard="left",
        slot_type="h100",
        nodes=3,
        slots_each=8,
        cpus_each=64.0,
        memory_bytes_each=512 * 2**30,
        slots=24,
        slots_used=0,
        states={"up": 3},
        hostnames=["a1", "a3"],
    )
    assert added.node_kinds[1].hostnames == ["b"]
    assert client.cluster("site") == added
    assert [cluster.name for cluster in client.clusters()] == ["local", "site"]
    gone = client.remove_cluster("site")
    assert (gone.name, gone.warnings) == ("site", [])
    assert [cluster.name for cluster in client.clusters()] == ["local"]


def test_what_runs_there_is_counted_and_drained_slots_are_not_free(plane: Served) -> None:
    client = plane.client()
    client.add_cluster(SITE, filename="site.yaml")
    client.submit(HELLO, overrides={"slots": 8, "cluster": "site"})
    plane.turn()
    client.drain("b")
    shown = client.cluster("site")
    assert (shown.slots_used, shown.slots_free) == (8, 16)
    assert shown.node_kinds[1].states == {"drained": 1}
    with pytest.raises(Refused, match="keeps what runs hold"):
        client.remove_cluster("site")
    plane.advance(60)
    client.remove_cluster("site")


def test_what_is_wrong_with_a_description_keeps_its_place(plane: Served) -> None:
    client = plane.client()
    with pytest.raises(InvalidInput) as refused:
        client.add_cluster("nodes:\n  - {slot: 8}\n  - {slots: 0}\n", filename="site.yaml")
    assert [(item.file, item.line) for item in refused.value.problems] == [("site.yaml", 2), ("site.yaml", 3)]
    assert len(client.clusters()) == 1


def test_a_doubtful_slot_type_is_a_warning(plane: Served) -> None:
    (warning,) = plane.client().add_cluster("name: a\nnodes: [{slots: 'h10o:8'}]").warnings
    assert "did you mean 'h100'?" in warning


def test_another_description_of_the_name_wants_replace(plane: Served) -> None:
    client = plane.client()
    first = client.add_cluster(SITE, filename="site.yaml")
    assert client.add_cluster(SITE, filename="site.yaml") == first
    smaller = "name: site\nnodes: [{slots: 1}]"
    with pytest.raises(Refused, match="there is a cluster 'site' already"):
        client.add_cluster(smaller)
    assert client.add_cluster(smaller, replace=True).nodes == 1


def test_the_rules_of_one_pool_are_changed_while_runs_use_it(plane: Served) -> None:
    """Only the given rules change, durably; null returns one to its default. The nodes stay."""
    client = plane.client()
    client.add_cluster(SITE, filename="site.yaml")
    client.submit(HELLO, overrides={"slots": 8, "cluster": "site", "pool": "big"})
    plane.turn()
    rules = {"preemption": True, "shares": {"ada": 1, "bob": 3}, "turn": None, "guaranteed": "10m"}
    big, _ = client.set_pool("site", "big", rules).pools
    assert (big.policy, big.preemption, big.shares) == ("fair_share", True, {"ada": 1.0, "bob": 3.0})
    assert (big.turn_s, big.guaranteed_s, big.slots_used) == (90.0, 600.0, 8)
    _, default = client.set_pool("site", "default", {"policy": "least_attained"}).pools
    assert default.policy == "least_attained", "a pool that the file does not name"
    big, _ = client.set_pool("site", "big", {"policy": "priority"}).pools
    assert (big.shares, big.preemption) == ({}, True), "rules about shares vanish"
    client.set_pool("site", "big", {"policy": "fair_share"})
    [stored] = plane.store.clusters()
    assert [(pool.name, pool.policy) for pool in stored.pools] == [
        ("big", "fair_share"),
        ("default", "least_attained"),
    ]
    assert plane.plane.control.offer()[0][-1].policy == "least_attained", "the scheduler's rules"


@pytest.mark.parametrize(
    ("cluster", "pool", "rules", "text"),
    [
        ("site", "big", {"polcy": "priority"}, "did you mean 'policy'"),
        ("site", "big", {"polcy": None}, "did you mean 'policy'"),
        (
            "site",
            "big",
            {"policy": "priority", "shares": {"ada": 1}},
            "nothing is shared under policy",
        ),
        ("site", "big", {"turn": "5 parsecs"}, "a duration such as 90s"),
        ("site", "bug", {}, "cluster site has no pool 'bug'"),
        ("sight", "big", {}, "did you mean site?"),
        ("local", "default", {}, "settings.toml describes the pools"),
    ],
)
def test_rules_that_cannot_be_changed_are_refused(
    plane: Served, cluster: str, pool: str, rules: dict[str, object], text: str
) -> None:
    client = plane.client()
    before = client.add_cluster(SITE, filename="site.yaml")
    with pytest.raises((InvalidInput, NotFound, Refused)) as refused:
        client.set_pool(cluster, pool, rules)
    assert text in f"{refused.value} {refused.value.hint}"
    assert client.cluster("site") == before


def test_unknown_names_are_told_with_the_nearest(plane: Served) -> None:
    client = plane.client()
    client.add_cluster(SITE, filename="site.yaml")
    for ask in (client.cluster, client.remove_cluster):
        with pytest.raises(NotFound, match=r"did you mean site\?"):
            ask("siet")


def test_nodes_are_listed_and_drained_by_cluster_pool_and_shard(plane: Served) -> None:
    client = plane.client()
    client.add_cluster(SITE, filename="site.yaml")
    assert [node.hostname for node in client.nodes(cluster="site", shard="right")] == ["b"]
    assert len(client.nodes(pool="big")) == 3
    with pytest.raises(NotFound, match="no node is in cluster 'sight'"):
        client.nodes(cluster="sight")
    changed = client.drain("a1", "a3", pool="big")
    assert [(node.name, node.state) for node in changed] == [
        ("a1.site", "drained"),
        ("a3.site", "drained"),
    ]
    assert len(client.undrain(cluster="site")) == 4
    assert {node.state for node in client.nodes()} == {"up"}
    with pytest.raises(InvalidInput, match="which nodes"):
        client.drain()


def test_a_rehearsal_may_come_as_a_file_or_as_a_description(plane: Served) -> None:
    client = plane.client()
    file = {"source": SITE, "filename": "site.yaml"}
    for rehearse in (file, {"nodes": [{"count": 2, "slots": "h100:8", "pool": "big"}]}):
        run = client.submit(HELLO, overrides={"rehearse": rehearse, "slots": 16, "pool": "big"})
        plane.turn()
        (attempt,) = client.attempts(run.id)
        assert (attempt.cluster, len(attempt.nodes)) == (f"rehearsal-{run.id}", 2)
    with pytest.raises(InvalidInput) as refused:
        client.submit(HELLO, overrides={"rehearse": {"source": "nodes: []", "filename": "empty.yaml"}})
    assert refused.value.problems[0].file == "empty.yaml"
    with pytest.raises(Refused, match="can never start here"):
        client.submit(HELLO, overrides={"rehearse": file, "slots": 25, "pool": "big"})


def test_what_a_run_needs_on_a_cluster_is_tried(plane: Served) -> None:
    found = plane.client().check_cluster("local")
    assert [(item.what, item.ok) for item in found] == [("engine", True), ("nodes", True)]
    with pytest.raises(NotFound, match="no cluster 'loca'"):
        plane.client().check_cluster("loca")


def test_an_engine_that_is_not_here_is_refused_by_name(plane: Served) -> None:
    source = "engine: slrum\nsettings: {partition: gpu}\ncredentials: {ssh: hpc-key}\n"
    with pytest.raises(InvalidInput, match="there is no engine 'slrum' here"):
        plane.client().add_cluster(source, filename="hpc.yaml")
    with pytest.raises(InvalidInput, match="finds the nodes itself"):
        plane.client().add_cluster("engine: slurm\nnodes: [{slots: 1}]\n", filename="hpc.yaml")
