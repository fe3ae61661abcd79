"""The methods of `tarmac.Client` about what all runs share: the queue, the nodes, the clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tarmac.client.calls import Calls, segment

if TYPE_CHECKING:
    from tarmac.client.cluster_records import ClusterRecord, FindingRecord
    from tarmac.client.records import NodeRecord, QueuePoolRecord


class ClusterCalls(Calls):
    """One method per route. Inherited by `Client`."""

    def queue(
        self,
        *,
        cluster: str | None = None,
        pool: str | None = None,
        mine: bool = False,
        limit: int | None = None,
        after: int | None = None,
    ) -> list[QueuePoolRecord]:
        """The queue of each pool: what holds slots and what waits for them, in scheduling order.

        `limit`: so many runs of each pool, those that follow the `number` `after`.
        """
        mine_only = "true" if mine else None
        given = {"cluster": cluster, "pool": pool, "mine": mine_only, "limit": limit, "after": after}
        query = urlencode({key: value for key, value in given.items() if value is not None})
        answer: list[QueuePoolRecord] = self._get(f"/queue?{query}")
        return answer

    def change_queue(
        self, changes: Sequence[Mapping[str, Any]], *, limit: int | None = None
    ) -> list[QueuePoolRecord]:
        """Change places in the queue, all or none; each is a `QueueChange` of docs/api.md.

        Answers the queues of the pools that were touched; with `limit` their first runs and the changed ones.
        """
        body = {"changes": [dict(change) for change in changes]}
        path = "/queue/changes" if limit is None else f"/queue/changes?limit={limit}"
        answer: list[QueuePoolRecord] = self._send("POST", path, body)
        return answer

    def nodes(
        self, *, cluster: str | None = None, pool: str | None = None, shard: str | None = None
    ) -> list[NodeRecord]:
        """The nodes (of a cluster, a pool, a shard), and what runs on them."""
        given = {"cluster": cluster, "pool": pool, "shard": shard}
        query = urlencode({key: value for key, value in given.items() if value is not None})
        answer: list[NodeRecord] = self._get(f"/nodes?{query}" if query else "/nodes")
        return answer

    def drain(
        self, *nodes: str, cluster: str | None = None, pool: str | None = None, shard: str | None = None
    ) -> list[NodeRecord]:
        """Give nodes no new work: those named, or every one of a cluster, pool and shard. All, or none."""
        body = {"nodes": nodes, "cluster": cluster, "pool": pool, "shard": shard}
        answer: list[NodeRecord] = self._send("POST", "/nodes/drain", body)
        return answer

    def undrain(
        self, *nodes: str, cluster: str | None = None, pool: str | None = None, shard: str | None = None
    ) -> list[NodeRecord]:
        """Give drained nodes work again."""
        body = {"nodes": nodes, "cluster": cluster, "pool": pool, "shard": shard}
        answer: list[NodeRecord] = self._send("POST", "/nodes/undrain", body)
        return answer

    def clusters(self) -> list[ClusterRecord]:
        """Every lasting cluster, its pools with their rules and its nodes by kind."""
        answer: list[ClusterRecord] = self._get("/clusters")
        return answer

    def cluster(self, name: str) -> ClusterRecord:
        """One cluster, of a rehearsal too."""
        answer: ClusterRecord = self._get(f"/clusters/{segment('cluster', name)}")
        return answer

    def check_cluster(self, name: str) -> list[FindingRecord]:
        """Try what a run needs on a cluster: what was found, one by one."""
        answer: list[FindingRecord] = self._get(f"/clusters/{segment('cluster', name)}/check")
        return answer

    def add_cluster(
        self, source: str, *, filename: str = "cluster.yaml", replace: bool = False
    ) -> ClusterRecord:
        """Add the cluster that a text describes; with `replace`, in place of the one of its name."""
        body = {"source": source, "filename": filename, "replace": replace}
        answer: ClusterRecord = self._send("POST", "/clusters", body)
        return answer

    def remove_cluster(self, name: str) -> ClusterRecord:
        """Forget a described cluster; the answer is what it was."""
        answer: ClusterRecord = self._send("DELETE", f"/clusters/{segment('cluster', name)}")
        return answer
