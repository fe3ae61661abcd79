"""Clusters started on machines, over HTTP: the real client and routes, and a starter that starts nothing."""

from __future__ import annotations

import pytest

from cluster_starter import NAME
from served import Served
from tarmac import api
from tarmac.model.errors import InvalidInput, NotFound, Problem, Refused


def test_a_cluster_is_started_followed_looked_at_and_ended(plane: Served) -> None:
    client = plane.client()
    client.start_cluster(NAME, "gpu1 slots=4\nbob@gpu2 slots=4 head\n", install=True)
    lines = list(client.follow_cluster_change(NAME))
    assert lines[0] == api.ChangeLine("gpu1", "reached and installed")
    assert api.ChangeLine("gpu2", "is node gpus2, 4 slots") in lines
    assert client.cluster(NAME).nodes == 3
    status = client.cluster_machines(NAME)
    assert [(each.name, each.role, each.state, each.slots) for each in status.machines] == [
        ("gpu1", "worker", "up", 4),
        ("gpu2", "head", "up", 4),
    ]
    assert status.change is None
    client.end_cluster(NAME, purge=True)
    assert list(client.follow_cluster_change(NAME)) == []
    assert plane.starter.calls == ["begin gpu1 gpu2", "end gpu1 and purge", "end gpu2 and purge"]
    with pytest.raises(NotFound, match="there is no cluster 'gpus' that was started"):
        client.cluster_machines(NAME)


def test_problems_come_as_they_were_found(plane: Served) -> None:
    client = plane.client()
    with pytest.raises(InvalidInput) as refused:
        client.start_cluster(NAME, "gpu1\ngpu2 slot=8\n", filename="my hosts.txt")
    assert str(refused.value.problems[0]).startswith("my hosts.txt:2:6: 'slot=8' is not known here")
    with pytest.raises(InvalidInput, match="the name of a cluster"):
        client.start_cluster("a b", "gpu1\n")

    plane.starter.unfit = [
        Problem(message="gpu1: wrong key", hint="ssh -v gpu1"),
        Problem(message="gpu2: no"),
    ]
    client.start_cluster(NAME, "gpu1\ngpu2\n")
    with pytest.raises(InvalidInput) as failed:
        list(client.follow_cluster_change(NAME))
    assert list(failed.value.problems) == plane.starter.unfit
    assert [cluster.name for cluster in client.clusters()] == ["local"]


def test_who_did_not_begin_a_change_is_told_so(plane: Served) -> None:
    client = plane.client()
    with pytest.raises(NotFound, match="nothing is done to cluster 'gpus' now") as missing:
        client.cluster_change(NAME)
    assert "the same command again completes it" in (missing.value.hint or "")
    client.add_cluster("nodes: [{slots: 8}]", filename="site.yaml")
    with pytest.raises(Refused, match="was not started by tarmac cluster up"):
        client.end_cluster("site")
    with pytest.raises(Refused, match="which tarmac cluster up did not start"):
        client.start_cluster("site", "gpu1\n")
