"""The methods of `tarmac.Client` about what runs share: the queue, the nodes, their images, the clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tarmac.client.calls import Calls, segment
from tarmac.client.failures import error_of

if TYPE_CHECKING:
    from tarmac import api


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
        """The queue of each pool: what holds slots and what waits for them, in scheduling order.

        `limit`: so many runs of each pool, those that follow the `number` `after`.
        """
        mine_only = "true" if mine else None
        return self._get("/queue", cluster=cluster, pool=pool, mine=mine_only, limit=limit, after=after)

    def change_queue(
        self, changes: Sequence[Mapping[str, Any]], *, limit: int | None = None
    ) -> list[api.QueuePool]:
        """Change places in the queue, all or none; each is a `QueueChange` of docs/using/api.md.

        Answers the queues of the pools that were touched; with `limit` their first runs and the changed ones.
        """
        body = {"changes": [dict(change) for change in changes]}
        path = "/queue/changes" if limit is None else f"/queue/changes?limit={limit}"
        return self._send("POST", path, body)

    def images(self, *, cluster: str | None = None, node: str | None = None) -> api.ImageList:
        """The images that the nodes have, and which clusters gave no answer."""
        return self._get("/images", cluster=cluster, node=node)

    def remove_image(
        self, image: str, *, cluster: str | None = None, node: str | None = None
    ) -> list[api.KeptImage]:
        """Remove an image, by name or digest, from every node that has it; what was removed."""
        choice = {"image": image, "cluster": cluster, "node": node}
        query = urlencode({name: value for name, value in choice.items() if value is not None})
        return self._send("DELETE", f"/images?{query}")

    def nodes(
        self, *, cluster: str | None = None, pool: str | None = None, shard: str | None = None
    ) -> list[api.Node]:
        """The nodes (of a cluster, a pool, a shard), and what runs on them."""
        return self._get("/nodes", cluster=cluster, pool=pool, shard=shard)

    def drain(
        self,
        *nodes: str,
        cluster: str | None = None,
        pool: str | None = None,
        shard: str | None = None,
        reason: str = "",
    ) -> list[api.Node]:
        """Give nodes no new work: those named, or every one of a cluster, pool and shard. All, or none."""
        body = {"nodes": nodes, "cluster": cluster, "pool": pool, "shard": shard}
        if reason:
            body["reason"] = reason
        return self._send("POST", "/nodes/drain", body)

    def undrain(
        self, *nodes: str, cluster: str | None = None, pool: str | None = None, shard: str | None = None
    ) -> list[api.Node]:
        """Give drained nodes work again."""
        body = {"nodes": nodes, "cluster": cluster, "pool": pool, "shard": shard}
        return self._send("POST", "/nodes/undrain", body)

    def usage(self, *, since: float | None = None, until: float | None = None) -> list[api.UsedSlots]:
        """What was used from `since` until `until` (Unix times), by user, project, cluster and pool."""
        return self._get("/usage", since=since, until=until)

    def utilization(self) -> list[api.RunUtilization]:
        """What the workers of live runs use now: processors, memory and GPUs, by run and node."""
        return self._get("/utilization")

    def clusters(self) -> list[api.Cluster]:
        """Every lasting cluster, its pools with their rules and its nodes by kind."""
        return self._get("/clusters")

    def cluster(self, name: str) -> api.Cluster:
        """One cluster, of a rehearsal too."""
        return self._get(f"/clusters/{segment('cluster', name)}")

    def check_cluster(self, name: str) -> list[api.Finding]:
        """Try what a run needs on a cluster: what was found, one by one."""
        return self._get(f"/clusters/{segment('cluster', name)}/check")

    def add_cluster(
        self, source: str, *, filename: str = "cluster.yaml", replace: bool = False
    ) -> api.Cluster:
        """Add the cluster that a text describes; with `replace`, in place of the one of its name."""
        body = {"source": source, "filename": filename, "replace": replace}
        return self._send("POST", "/clusters", body)

    def remove_cluster(self, name: str) -> api.Cluster:
        """Forget a described cluster; the answer is what it was."""
        return self._send("DELETE", f"/clusters/{segment('cluster', name)}")

    def start_cluster(
        self, name: str, source: str, *, filename: str = "hosts.txt", install: bool = False
    ) -> api.ClusterChange:
        """Begin to have a cluster run on exactly the machines of a hosts file; see `cluster_change`."""
        body = {"source": source, "filename": filename, "install": install}
        return self._send("PUT", f"/clusters/{segment('cluster', name)}/machines", body)

    def end_cluster(self, name: str, *, force: bool = False, purge: bool = False) -> api.ClusterChange:
        """Begin to end a cluster that was started; see `cluster_change`."""
        body = {"force": force, "purge": purge}
        return self._send("POST", f"/clusters/{segment('cluster', name)}/down", body)

    def cluster_machines(self, name: str) -> api.ClusterStatus:
        """How the machines of a cluster are that was started, asked of themselves."""
        return self._get(f"/clusters/{segment('cluster', name)}/machines")

    def cluster_change(self, name: str, *, after: int = 0) -> api.ClusterChange:
        """How far the newest change of a cluster is: waits a while for lines from number `after` on."""
        return self._get(f"/clusters/{segment('cluster', name)}/change", after=after)

    def follow_cluster_change(self, name: str) -> Iterator[api.ChangeLine]:
        """What is done by `start_cluster` or `end_cluster`, line by line until it is over.

        Raises what it failed with. Whoever stops listening stops nothing.
        """
        change: api.ClusterChange | None = None
        while change is None or change["state"] == "working":
            change = self.cluster_change(name, after=change["next"] if change is not None else 0)
            yield from change["lines"]
        if change["error"] is not None:
            raise error_of(change["error"])
