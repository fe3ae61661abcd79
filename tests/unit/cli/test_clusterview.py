"""The pages of `tarmac clusters`: one line for each, and one of them with its pools and nodes."""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec
import pytest
from msgspec.structs import replace

from tarmac import api
from tarmac.cli.cluster_words import cluster_text
from tarmac.cli.commands.clusters import CLUSTERS, cluster_line, cluster_page
from tarmac.cli.views.table import table_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.cluster import QueueOffer


def pool(name: str, **rules: Any) -> Any:
    usual = {
        "nodes": 2,
        "slots": 16,
        "slots_used": 3,
        "policy": "priority",
        "preemption": False,
        "packing": "pack",
        "guaranteed_s": 300.0,
        "backfill_window_s": 3600.0,
        "share_by": "user",
        "shares": {},
        "half_life_s": 604_800.0,
        "turn_s": 90.0,
        "period_s": 7200.0,
        "floor_s": 300.0,
    }
    return {"name": name, **usual, **rules}


def kind(**facts: Any) -> dict[str, Any]:
    usual = {
        "pool": "big",
        "shard": "left",
        "slot_type": "h100",
        "nodes": 3,
        "slots_each": 8,
        "cpus_each": 64.0,
        "memory_bytes_each": 2**39,
        "slots": 24,
        "slots_used": 8,
        "states": {"up": 2, "drained": 1},
        "hostnames": ["a1", "a3"],
    }
    return {**usual, **facts}


LAB = msgspec.convert(
    {
        "name": "lab",
        "engine": "local",
        "delegated": False,
        "trouble": None,
        "kind": "added",
        "nodes": 4,
        "slots": 28,
        "slots_used": 8,
        "slots_free": 12,
        "pools": [
            pool(
                "big",
                policy="fair_share",
                shares={"ada": 2.0, "bo": 0.5},
                preemption=True,
                half_life_s=86_400.0,
            ),
            pool("small", packing="spread", turn_s=5.0, period_s=60.0, floor_s=10.0),
        ],
        "node_kinds": [
            kind(),
            kind(pool="small", shard=None, slot_type=None, nodes=1, states={"lost": 1}, hostnames=["b"]),
            kind(pool="small", shard=None, states={"up": 3}),
        ],
        "settings": {},
        "queues": [],
        "warnings": [],
    },
    api.Cluster,
)


def test_a_line_for_each_cluster() -> None:
    head, line = table_text(CLUSTERS, [LAB], Terminal()).splitlines()
    assert head.split() == ["CLUSTER", "ENGINE", "NODES", "FREE", "SLOTS", "TYPES", "POOLS"]
    assert line.split() == ["lab", "local", "4", "12", "28", "h100,", "any", "big,", "small"]


def test_a_page_of_one_tells_rules_and_states() -> None:
    page = cluster_page(LAB, Terminal())
    assert page.startswith("lab (local, added): 4 nodes in 2 pools, 12 of 28 slots free\n\n")
    _, pools, kinds = page.split("\n\n")
    big, small = pools.splitlines()[1:]
    assert "fair_share" in big
    assert big.endswith("by user, ada 2, bo 0.5, half after 1d 0h")
    assert small.split()[:7] == ["small", "2", "3", "16", "priority", "off", "spread"]
    assert " 5.0s " in small
    rows = kinds.splitlines()[1:]
    assert "2 up, 1 drained" in rows[0]
    assert rows[0].endswith("a1 ... a3")
    assert "1 lost" in rows[1]
    assert rows[1].endswith(" b")
    assert " up " in rows[2]


def test_one_node_and_one_pool_are_not_said_in_the_plural() -> None:
    own = replace(LAB, kind=api.ClusterKind.OWN, nodes=1, pools=LAB.pools[:1])
    assert cluster_line(own) == "lab (local, this machine's own): 1 node in 1 pool, 12 of 28 slots free"


def test_a_cluster_with_a_queue_of_its_own_says_what_its_pools_take() -> None:
    offer = QueueOffer(
        pool="train",
        queue="gpu",
        terms={"account": "proj"},
        longest_s=86_400.0,
        usual_s=3600.0,
        most_nodes=8,
    )
    free = QueueOffer(pool="any", queue="cpu")
    settings = {"directory": "/scratch/ada", "extra": {"mem": None}, "pools": {}}
    page = cluster_page(replace(LAB, delegated=True, settings=settings, queues=[offer, free]), Terminal())
    lines = [line.split() for line in page.splitlines()]
    assert ["directory:", "/scratch/ada"] in lines
    assert ["extra:", '{"mem":', "null}"] in lines
    assert ["POOL", "QUEUE", "LONGEST", "USUAL", "NODES", "TERMS"] in lines
    assert ["train", "gpu", "1d", "0h", "1h", "00m", "8", "account", "proj"] in lines
    assert ["any", "cpu", "no", "limit", "known"] in lines


def test_settings_may_stand_on_the_command_line() -> None:
    settings = [("partition", "gpu"), ("pools.train.qos", "a=b"), ("pools.train.extra.mem", "")]
    text = cluster_text("site", "slurm", [*settings, ("extra.exclusive", "true")])
    assert json.loads(text) == {
        "name": "site",
        "engine": "slurm",
        "settings": {
            "partition": "gpu",
            "pools": {"train": {"qos": "a=b", "extra": {"mem": None}}},
            "extra": {"exclusive": True},
        },
    }
    with pytest.raises(click.UsageError, match="'extra' has a value already"):
        cluster_text("site", "slurm", [("extra", "x"), ("extra.mem", "1G")])
