"""Clusters to play on: from a shape such as `64x8`, or with other rules. Called by `playing` and `cli`."""

import re

from tarmac.model.cluster import Cluster, NodeGroup, Policy, Pool
from tarmac.model.codec import replace

SIMULATED = "simulated"
"""The name of a cluster that is a shape alone."""

MOST_NODES = 99_999
MOST_SLOTS = 9_999

_SHAPE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,3})")


def shape_of(text: str) -> Cluster | None:
    """The cluster of a shape: `64x8` is 64 nodes of 8 slots each; None if the text is no shape."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    return Cluster(name=SIMULATED, groups=(NodeGroup(nodes=int(match[1]), slots=int(match[2])),))


def shape_text(cluster: Cluster) -> str:
    """A short text for a cluster: `64x8`, `4x8 + 2x4`."""
    return " + ".join(f"{group.nodes}x{group.slots}" for group in cluster.groups)


def slots_of(cluster: Cluster) -> int:
    """The number of slots of a cluster."""
    return sum(group.nodes * group.slots for group in cluster.groups)


def with_rules(cluster: Cluster, policy: Policy | None, *, preemption: bool | None) -> Cluster:
    """The cluster with this policy and preemption in all of its pools (None: unchanged)."""
    named = {pool.name: pool for pool in cluster.pools}
    for group in cluster.groups:
        named.setdefault(group.pool, Pool(name=group.pool, cluster=cluster.name))
    pools = tuple(
        replace(
            pool,
            policy=pool.policy if policy is None else policy,
            preemption=pool.preemption if preemption is None else preemption,
        )
        for pool in named.values()
    )
    return replace(cluster, pools=pools)
