"""A cluster's own history: what ended there becomes jobs, what it is now the cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from answers import a_summary, an_attempt
from tarmac import api
from tarmac.api.clusters import Node
from tarmac.model.cluster import NodeState, Policy
from tarmac.model.errors import Refused
from tarmac.model.summary import RunSummary
from tarmac.simulator.history import busiest, cluster_of, trace_of
from tarmac.simulator.shapes import shape_text


def run(number: int, **more: Any) -> RunSummary:
    """A run as the API lists it."""
    return a_summary(
        {
            "id": f"r{number}",
            "name": "train",
            "project": "default",
            "user": "ada",
            "mode": "batch",
            "priority": 3,
            "slots": 2,
            "cluster": "site",
            "pool": "default",
            "created_at": 100.0 + number,
            "started_at": 110.0,
            "ended_at": 150.0,
            **more,
        }
    )


def node(name: str, slots: int, cluster: str = "site") -> Node:
    return Node(
        name=name,
        cluster=cluster,
        pool="default",
        shard=None,
        hostname=name,
        address="",
        state=NodeState.UP,
        reason="",
        drain=None,
        slot_type="cpu",
        slots=slots,
        slots_used=0,
        cpus=8.0,
        memory_bytes=2**30,
        own_disk=False,
        runs=(),
    )


RULES = {
    "name": "default",
    "nodes": 2,
    "slots": 6,
    "slots_used": 0,
    "policy": "fair_share",
    "preemption": True,
    "packing": "pack",
    "guaranteed_s": 60.0,
    "backfill_window_s": 600.0,
    "share_by": "user",
    "shares": {"ada": 2.0},
    "half_life_s": 3600.0,
    "turn_s": 90.0,
    "period_s": 7200.0,
    "floor_s": 300.0,
}


def test_runs_become_jobs_that_worked_as_long_as_they_did() -> None:
    attempts = {
        "r2": [
            an_attempt({"started_at": 110.0, "ended_at": 120.0}),
            an_attempt({"started_at": None, "ended_at": 125.0}),
            an_attempt({"started_at": 130.0, "ended_at": 150.0}),
        ]
    }
    runs = [run(2), run(1), run(3, started_at=None), run(4, cluster="rehearsal-r4")]
    trace = trace_of(runs, attempts, "site")
    assert [(job.id, job.duration_s, job.slots, job.user) for job in trace.jobs] == [
        ("r1", 40.0, 2, "ada"),
        ("r2", 30.0, 2, "ada"),
    ]


def test_the_cluster_is_the_one_that_most_ran_on() -> None:
    runs = [run(1), run(2), run(3, cluster="other"), run(4, cluster="rehearsal-r4")]
    assert busiest(runs) == "site"


def test_without_a_run_that_ended_there_is_no_history() -> None:
    with pytest.raises(Refused, match="no run of a lasting cluster"):
        busiest([run(4, cluster="rehearsal-r4"), run(5, started_at=None)])


def test_the_cluster_is_as_it_is_now_with_its_rules() -> None:
    nodes = [node("a", 8), node("b", 8), node("c", 4), node("d", 8, cluster="other")]
    record = {
        "name": "site",
        "engine": "local",
        "delegated": False,
        "trouble": None,
        "kind": "own",
        "nodes": 2,
        "slots": 6,
        "slots_used": 0,
        "slots_free": 6,
        "pools": [RULES],
        "node_kinds": [],
        "settings": {},
        "queues": [],
        "warnings": [],
    }
    cluster = cluster_of("site", nodes, [msgspec.convert(record, api.Cluster)])
    assert shape_text(cluster) == "2x8 + 1x4"
    (pool,) = cluster.pools
    assert (pool.policy, pool.preemption, pool.shares) == (Policy.FAIR_SHARE, True, {"ada": 2.0})
