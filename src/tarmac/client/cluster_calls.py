"""The methods of `tarmac.Client` about queue, nodes, images and clusters. Inherited by `client.Client`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tarmac import api
from tarmac.client.calls import Calls, segment
from tarmac.client.failures import error_of
from tarmac.model.abilities import KeptImage
from tarmac.model.engine_kinds import Finding


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
    ) -> list[api.QueuePool]:
        """The queue of each pool: runs with slots and waiting runs, in scheduling order.

        `limit`: the maximum number of runs of each pool, beginning behind the `number` `after`.
        """
        mine_only = "true" if mine else None
        return self._get_as(
            list[api.QueuePool],
            "/queue",
            cluster=cluster,
            pool=pool,
            mine=mine_only,
            limit=limit,
            after=after,
        )

    def change_queue(
        self, changes: Sequence[Mapping[str, Any]], *, limit: int | None = None
    ) -> list[api.QueuePool]:
        """Change all of these places in the queue or none; each is a `QueueChange` of docs/using/api.md.

        Returns the queues of the changed pools; with `limit` their first runs and the changed ones.
        """
        body = {"changes": [dict(change) for change in changes]}
        path = "/queue/changes" if limit is None else f"/queue/changes?limit={limit}"
        return self._send_as(list[api.QueuePool], "POST", path, body)

    def images(self, *, cluster: str | None = None, node: str | None = None) -> api.ImageList:
        """The images of the nodes, and the clusters that did not answer."""
        return self._get_as(api.ImageList, "/images", cluster=cluster, node=node)

    def remove_image(
        self, image: str, *, cluster: str | None = None, node: str | None = None
    ) -> list[KeptImage]:
        """Remove an image, by name or digest, from every node that has it; return the removed ones."""
        choice = {"image": image, "cluster": cluster, "node": node}
        query = urlencode({name: value for name, value in choice.items() if value is not None})
        return self._send_as(list[KeptImage], "DELETE", f"/images?{query}")

    def nodes(
        self, *, cluster: str | None = None, pool: str | None = None, shard: str | None = None
    ) -> list[api.Node]:
        """The nodes (of a cluster, a pool, a shard), with their runs."""
        return self._get_as(list[api.Node], "/nodes", cluster=cluster, pool=pool, shard=shard)

    def drain(
        self,
        *nodes: str,
        cluster: str | None = None,
        pool: str | None = None,
        shard: str | None = None,
        reason: str = "",
    ) -> list[api.Node]:
        """Drain nodes: the named ones, or all of a cluster, pool and shard. All of them or none."""
        body = {"nodes": nodes, "cluster": cluster, "pool": pool, "shard": shard}
        if reason:
            body["reason"] = reason
        return self._send_as(list[api.Node], "POST", "/nodes/drain", body)

    def undrain(
        self, *nodes: str, cluster: str | None = None, pool: str | None = None, shard: str | None = None
    ) -> list[api.Node]:
        """Give drained nodes work again; selected as for `drain`."""
        body = {"nodes": nodes, "cluster": cluster, "pool": pool, "shard": shard}
        return self._send_as(list[api.Node], "POST", "/nodes/undrain", body)

    def usage(self, *, since: float | None = None, until: float | None = None) -> list[api.UsedSlots]:
        """The slot use from `since` to `until` (Unix times), by user, project, cluster and pool."""
        return self._get_as(list[api.UsedSlots], "/usage", since=since, until=until)

    def utilization(self) -> list[api.RunUtilization]:
        """The current use of processors, memory and GPUs by live runs, for each run and node."""
        return self._get("/utilization")

    def clusters(self) -> list[api.Cluster]:
        """Every permanent cluster, its pools with their rules and its nodes by kind."""
        return self._get_as(list[api.Cluster], "/clusters")

    def cluster(self, name: str) -> api.Cluster:
        """One cluster, including that of a rehearsal."""
        return self._get_as(api.Cluster, f"/clusters/{segment('cluster', name)}")

    def check_cluster(self, name: str) -> list[Finding]:
        """Check a cluster for the needs of runs; return all findings."""
        return self._get_as(list[Finding], f"/clusters/{segment('cluster', name)}/check")

    def add_cluster(
        self, source: str, *, filename: str = "cluster.yaml", replace: bool = False
    ) -> api.Cluster:
        """Add the cluster that a text describes; `replace` allows it to replace the one of its name."""
        body = {"source": source, "filename": filename, "replace": replace}
        return self._send_as(api.Cluster, "POST", "/clusters", body)

    def remove_cluster(self, name: str) -> api.Cluster:
        """Remove a described cluster; return its last record."""
        return self._send_as(api.Cluster, "DELETE", f"/clusters/{segment('cluster', name)}")

    def start_cluster(
        self, name: str, source: str, *, filename: str = "hosts.txt", install: bool = False
    ) -> api.ClusterChange:
        """Begin to run a cluster on exactly the machines of a hosts file; see `cluster_change`."""
        body = {"source": source, "filename": filename, "install": install}
        return self._send_as(api.ClusterChange, "PUT", f"/clusters/{segment('cluster', name)}/machines", body)

    def end_cluster(self, name: str, *, force: bool = False, purge: bool = False) -> api.ClusterChange:
        """Begin to end a started cluster; see `cluster_change`."""
        body = {"force": force, "purge": purge}
        return self._send_as(api.ClusterChange, "POST", f"/clusters/{segment('cluster', name)}/down", body)

    def cluster_machines(self, name: str) -> api.ClusterStatus:
        """The state of a started cluster's machines, as they report it."""
        return self._get_as(api.ClusterStatus, f"/clusters/{segment('cluster', name)}/machines")

    def cluster_change(self, name: str, *, after: int = 0) -> api.ClusterChange:
        """The progress of a cluster's newest change: waits briefly for lines from number `after` on."""
        return self._get_as(api.ClusterChange, f"/clusters/{segment('cluster', name)}/change", after=after)

    def follow_cluster_change(self, name: str) -> Iterator[api.ChangeLine]:
        """The lines of `start_cluster` or `end_cluster`, until it ends.

        Raises the error that it failed with. The change continues if the caller stops reading.
        """
        change: api.ClusterChange | None = None
        while change is None or change.state is api.ChangeState.WORKING:
            change = self.cluster_change(name, after=change.next if change is not None else 0)
            yield from change.lines
        if change.error is not None:
            raise error_of(change.error)
