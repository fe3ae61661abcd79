"""The loopback addresses of clusters that the local engine represents. Called by `LocalEngine`.

Each added cluster gets a permanent range in the upper half of the loopback network; the permanent cluster and
rehearsals are below (`nodes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

from tarmac.model.cluster import Cluster
from tarmac.model.described import FIRST_ADDRESS, hostnames_of
from tarmac.model.errors import Refused
from tarmac.model.record import replace

ADDED_FIRST = int(IPv4Address("127.128.0.1"))
ADDED_LAST = int(IPv4Address("127.255.255.254"))

Span = tuple[int, int]


def addressed(cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:
    """The cluster with its first address; raises Refused if no free range is long enough.

    It keeps its old first address if the remaining nodes keep their addresses with it. Otherwise it gets the
    first gap that is large enough, outside the old range, whose addresses running attempts still use.
    """
    return replace(cluster, assigned={FIRST_ADDRESS: _first_address(cluster, old, others)})


def _first_address(cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> str:
    size = _size(cluster)
    taken = sorted(span for other in others if (span := _span(other)) is not None)
    before = _span(old) if old is not None else None
    if old is not None and before is not None:
        first = before[0]
        is_free = all(start > first + size - 1 or end < first for start, end in taken)
        if is_free and first + size - 1 <= ADDED_LAST and _in_step(old, cluster):
            return old.assigned[FIRST_ADDRESS]
        taken = sorted([*taken, before])
    first = ADDED_FIRST
    for start, end in taken:
        if first + size <= start:
            break
        first = max(first, end + 1)
    if first + size - 1 > ADDED_LAST:
        raise Refused(f"there are no {size} addresses left next to one another for cluster {cluster.name}")
    return str(IPv4Address(first))


def _span(cluster: Cluster) -> Span | None:
    address = cluster.assigned.get(FIRST_ADDRESS)
    if address is None:
        return None
    first = int(IPv4Address(address))
    return first, first + _size(cluster) - 1


def _size(cluster: Cluster) -> int:
    return sum(group.nodes for group in cluster.groups)


def _in_step(old: Cluster, new: Cluster) -> bool:
    """Whether every common node has the same number in both clusters."""
    before = {hostname: number for number, (_, hostname) in enumerate(hostnames_of(old.groups))}
    return all(
        before.get(hostname, number) == number
        for number, (_, hostname) in enumerate(hostnames_of(new.groups))
    )
