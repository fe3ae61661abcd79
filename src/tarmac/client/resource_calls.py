"""The methods about everything but single runs: experiments, queue, nodes, files. Inherited by `Client`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from tarmac import api
from tarmac.api.operation import RunScope
from tarmac.client.burst_calls import BurstCalls
from tarmac.client.transport import error_of

if TYPE_CHECKING:
    from tarmac.model.abilities import KeptImage
    from tarmac.model.cluster import Finding
    from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit
    from tarmac.model.people.usage import UsedSlots
    from tarmac.model.run_records import Dataset
    from tarmac.model.secret import Secret
    from tarmac.model.summary import Project

    class ListFilters(TypedDict, total=False):
        """The entries of a list, and the part of it."""

        states: Sequence[str]
        user: str | None
        mine: bool  # only the user's own
        project: str | None
        before: str | None  # the `next` of the last page
        limit: int

    class NodePart(TypedDict, total=False):
        """The part of the nodes that a call is about."""

        cluster: str | None
        pool: str | None
        shard: str | None


def listing(*, states: Sequence[str] = (), mine: bool = False, **filters: Any) -> dict[str, Any]:
    """The query for a page of a list."""
    return {"state": list(states), "scope": RunScope.MINE if mine else RunScope.ALL, **filters}


_PARTS = ("cluster", "pool", "shard")


class ResourceCalls(BurstCalls):
    """One method per route. Inherited by `Client`. No method returns the value of a secret."""

    def queue(
        self,
        *,
        cluster: str | None = None,
        pool: str | None = None,
        mine: bool = False,
        limit: int = 100,
        after: int = 0,
        arrays: bool = False,
    ) -> list[api.QueuePool]:
        """A page of the queue of each pool: runs with slots and waiting runs, in scheduling order.

        `limit`: the maximum number of lines of each pool, beginning behind the `number` `after` (the `next`
        of the last page). `arrays`: one line for all members of an array.
        """
        query = api.QueueQuery(cluster=cluster, pool=pool, mine=mine, limit=limit, after=after, arrays=arrays)
        return self._call(api.QUEUE, query=query)

    def projects(self) -> list[Project]:
        """The projects of all runs, that of the newest run first."""
        return self._call(api.PROJECTS)

    def queue_pages(self, **chosen: Any) -> Iterator[Iterator[api.QueuePool]]:
        """The pages of each queue, one after another, each requested when it is needed; as for `queue`."""
        for first in self.queue(**chosen):
            yield self._following(first, chosen)

    def _following(self, page: api.QueuePool, chosen: Mapping[str, Any]) -> Iterator[api.QueuePool]:
        yield page
        own = {**chosen, "cluster": page.cluster, "pool": page.pool}
        while page.next is not None:
            [page] = self.queue(**{**own, "after": page.next})
            yield page

    def change_queue(self, changes: Sequence[Mapping[str, Any]], *, limit: int = 100) -> list[api.QueuePool]:
        """Change all of these places in the queue or none; each is a `QueueChange` of docs/using/api.md.

        Returns the queues of the changed pools: their first `limit` runs and the changed ones.
        """
        body = api.ChangesBody(changes=cast("list[api.QueueChange]", list(changes)))  # the server checks them
        return self._call(api.CHANGE_QUEUE, query=api.QueueChangeQuery(limit=limit), body=body)

    def images(self, *, cluster: str | None = None, node: str | None = None) -> api.ImageList:
        """The images of the nodes, and the clusters that did not answer."""
        return self._call(api.IMAGES, query=api.ImagesQuery(cluster=cluster, node=node))

    def remove_image(
        self, image: str, *, cluster: str | None = None, node: str | None = None
    ) -> list[KeptImage]:
        """Remove an image, by name or digest, from every node that has it; return the removed ones."""
        return self._call(api.REMOVE_IMAGE, query=api.ImageQuery(image=image, cluster=cluster, node=node))

    def nodes(self, **part: Unpack[NodePart]) -> list[api.Node]:
        """The nodes (of a cluster, a pool, a shard), with their runs."""
        return self._call(api.NODES, query=api.NodesQuery(**part))

    def drain(self, *nodes: str, reason: str = "", **part: Unpack[NodePart]) -> list[api.Node]:
        """Drain nodes: the named ones, or all of a cluster, pool and shard. All of them or none."""
        return self._call(api.DRAIN, body=api.DrainBody(names=nodes, reason=reason, **part))

    def undrain(self, *nodes: str, **part: Unpack[NodePart]) -> list[api.Node]:
        """Give drained nodes work again; selected as for `drain`."""
        return self._call(api.UNDRAIN, body=api.NodeChoice(names=nodes, **part))

    def reservations(self) -> list[api.Reservation]:
        """The reservations of nodes that have not ended."""
        return self._call(api.RESERVATIONS)

    def reserve(self, *nodes: str, **terms: Any) -> api.Reservation:
        """Reserve nodes, selected as for `drain`; terms are those of `ReserveBody` of docs/using/api.md."""
        choice = api.NodeChoice(names=nodes, **{part: terms.pop(part, None) for part in _PARTS})
        return self._call(api.RESERVE, body=api.ReserveBody(choice=choice, **terms))

    def release(self, reservation: str) -> api.Reservation:
        """End a reservation of nodes now, or cancel it."""
        return self._call(api.RELEASE, reservation)

    def usage(self, **query: Any) -> list[UsedSlots]:
        """The slot use from `since` to `until` (Unix times), by user, project, cluster and pool.

        `per`: also by `day` or `month` (UTC).
        """
        return self._call(api.USAGE, query=api.UsageQuery(**query))

    def usage_history(self, *, since: float | None = None, steps: int = 96) -> list[api.SlotHistory]:
        """The mean number of slots in use by pool, from `since` (None: for a day) until now, in steps."""
        return self._call(api.USAGE_HISTORY, query=api.UsageHistoryQuery(since=since, steps=steps))

    def limits(self) -> list[Limit]:
        """The limits of users, projects and pools."""
        return self._call(api.LIMITS)

    def set_limits(self, *, unset: Sequence[str] = (), **limits: Any) -> Limit:
        """Change the limits of a `user`, `project` or `pool`: given ones are set, `unset` ones removed."""
        return self._call(api.SET_LIMITS, body=api.LimitBody(unset=cast(Any, unset), **limits))

    def credits(self) -> list[CreditAccount]:
        """The accounts of credits."""
        return self._call(api.CREDITS)

    def grant_credits(self, account: str, amount: float, **options: Any) -> CreditAccount:
        """Grant credits to `user:NAME` or `project:NAME`; options are `note`, and `correction`."""
        body = api.GrantBody(account=account, credits=amount, key=os.urandom(16).hex(), **options)
        return self._call(api.GRANT_CREDITS, body=body)

    def credit_entries(self, **query: Any) -> list[CreditEntry]:
        """A page of the ledger of credits, newest first: of an `account`, `before` an id."""
        return self._call(api.CREDIT_ENTRIES, query=api.LedgerQuery(**query))

    def utilization(self) -> list[api.RunUtilization]:
        """The current use of processors, memory and GPUs by live runs, for each run and node."""
        return self._call(api.UTILIZATION)

    def clusters(self) -> list[api.Cluster]:
        """Every permanent cluster, its pools with their rules and its nodes by kind."""
        return self._call(api.CLUSTERS)

    def cluster(self, name: str) -> api.Cluster:
        """One cluster, including that of a rehearsal."""
        return self._call(api.CLUSTER, name)

    def check_cluster(self, name: str) -> list[Finding]:
        """Check a cluster for the needs of runs; return all findings."""
        return self._call(api.CHECK_CLUSTER, name)

    def add_cluster(
        self, source: str, *, filename: str = "cluster.yaml", replace: bool = False
    ) -> api.Cluster:
        """Add the cluster that a text describes; `replace` allows it to replace the one of its name."""
        body = api.ClusterBody(source=source, filename=filename, replace=replace)
        return self._call(api.ADD_CLUSTER, body=body)

    def set_pool(self, cluster: str, pool: str, rules: Mapping[str, Any]) -> api.Cluster:
        """Change rules of a pool, with the names and values of a cluster file; None: the default."""
        return self._call(api.SET_POOL, cluster, body=api.PoolBody(pool=pool, rules=rules))

    def remove_cluster(self, name: str) -> api.Cluster:
        """Remove a described cluster; return its last record."""
        return self._call(api.REMOVE_CLUSTER, name)

    def start_cluster(
        self, name: str, source: str, *, filename: str = "hosts.txt", install: bool = False
    ) -> api.ClusterChange:
        """Begin to run a cluster on exactly the machines of a hosts file; see `cluster_change`."""
        body = api.MachinesBody(source=source, filename=filename, install=install)
        return self._call(api.START_CLUSTER, name, body=body)

    def end_cluster(self, name: str, *, force: bool = False, purge: bool = False) -> api.ClusterChange:
        """Begin to end a started cluster; see `cluster_change`."""
        return self._call(api.END_CLUSTER, name, body=api.DownBody(force=force, purge=purge))

    def cluster_machines(self, name: str) -> api.ClusterStatus:
        """The state of a started cluster's machines, as they report it."""
        return self._call(api.CLUSTER_MACHINES, name)

    def cluster_change(self, name: str, *, after: int = 0) -> api.ClusterChange:
        """The progress of a cluster's newest change: waits briefly for lines from number `after` on."""
        return self._call(api.CLUSTER_CHANGE, name, query=api.ChangeQuery(after=after))

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

    def artifacts(self, run: str | None = None) -> list[api.Artifact]:
        """Every version of the artifacts of a run (by id or name), or of all runs."""
        return self._call(api.ARTIFACTS, query=api.ArtifactsQuery(run=run))

    def artifact(self, reference: str, *, kind: str = "checkpoint") -> api.ArtifactContent:
        """One version with its entries: by its id, or the latest of a kind by its run's id or name."""
        return self._call(api.ARTIFACT, reference, query=api.ArtifactQuery(kind=kind))

    def artifact_piece(self, digest: str) -> bytes:
        """A piece of a file in an artifact."""
        return self._call(api.ARTIFACT_PIECE, digest)

    def remove_artifact(self, reference: str) -> api.ArtifactContent:
        """Remove one version, by its id; return its last record."""
        return self._call(api.REMOVE_ARTIFACT, reference)

    def datasets(self) -> list[Dataset]:
        """Every dataset with its state."""
        return self._call(api.DATASETS)

    def add_dataset(self, dataset_id: str, source: str) -> Dataset:
        """Add a dataset: a path on the server's machine, or a URL."""
        return self._call(api.ADD_DATASET, body=api.DatasetBody(id=dataset_id, source=source))

    def remove_dataset(self, dataset_id: str) -> Dataset:
        """Remove a dataset; return its last record."""
        return self._call(api.REMOVE_DATASET, dataset_id)

    def secrets(self) -> list[Secret]:
        """The secrets that you may see, without their values."""
        return self._call(api.SECRETS)

    def set_secret(
        self,
        name: str,
        value: str,
        *,
        form: str | None = None,
        variable: str | None = None,
        path: str | None = None,
        scope: str | None = None,
    ) -> Secret:
        """Store a value, which replaces an earlier one; runs get it at their next start.

        It is yours, unless `scope` is `project:NAME`, empty for everyone, or `server`.
        """
        body = api.SecretBody(value=value, form=cast(Any, form), variable=variable, path=path)
        return self._call(api.SET_SECRET, name, query=api.SecretQuery(scope=scope), body=body)

    def remove_secret(
        self, name: str, *, scope: str | None = None, force: bool = False, purge: bool = False
    ) -> Secret | None:
        """Stop giving a secret to runs; `purge` deletes its values as well."""
        query = api.RemoveSecretQuery(scope=scope, force=force, purge=purge)
        return self._call(api.REMOVE_SECRET, name, query=query)

    def rotate_secrets(self) -> api.Rotation:
        """Seal every value with a new key, and delete the old ones."""
        return self._call(api.ROTATE_SECRETS)

    def experiments(
        self, *, archived: bool | None = None, **filters: Unpack[ListFilters]
    ) -> api.ExperimentPage:
        """A page of the list of experiments, newest first; `before` is the `next` of the last page."""
        query = api.ExperimentsQuery(archived=archived, **listing(**filters))
        return self._call(api.EXPERIMENTS, query=query)

    def experiment(self, reference: str) -> api.Experiment:
        """An experiment, by id, unique prefix of an id, or name (the newest of that name)."""
        return self._call(api.EXPERIMENT, reference)

    def trials(self, reference: str) -> list[api.Trial]:
        """All trials of an experiment, by number."""
        return self._call(api.TRIALS, reference)

    def best_trials(self, reference: str, *, limit: int = 1) -> list[api.Trial]:
        """The trials with the best metric, best first."""
        return self._call(api.BEST_TRIALS, reference, query=api.BestQuery(limit=limit))

    def numbers(self, run_ids: Sequence[str]) -> dict[str, api.Numbers]:
        """The numbers of these runs in their system's own command, for runs that have some."""
        return self._call(api.NUMBERS, query=api.NumbersQuery(run=list(run_ids))) if run_ids else {}

    def numbered_experiment(self, number: int) -> str:
        """The id of the experiment, or of the single run, with this number; raises NotFound."""
        return self._call(api.NUMBERED_EXPERIMENT, str(number)).id

    def pause_experiment(self, reference: str) -> api.Experiment:
        """Pause every active trial, and begin no new ones."""
        return self._call(api.PAUSE_EXPERIMENT, reference)

    def activate_experiment(self, reference: str) -> api.Experiment:
        """Resume the trials of a paused experiment."""
        return self._call(api.ACTIVATE_EXPERIMENT, reference)

    def stop_experiment(self, reference: str, *, now: bool = False) -> api.Experiment:
        """End an experiment and its trials for good (`now`: without their grace)."""
        return self._call(api.STOP_EXPERIMENT, reference, query=api.StopQuery(now=now))

    def continue_experiment(self, reference: str) -> api.Experiment:
        """Continue an ended experiment: failed and stopped trials run again."""
        return self._call(api.CONTINUE_EXPERIMENT, reference)

    def archive_experiment(self, reference: str, archived: bool = True) -> api.Experiment:
        """Hide an ended experiment from plain lists, or show it again."""
        return self._call(api.ARCHIVE_EXPERIMENT, reference, query=api.ArchiveQuery(archived=archived))

    def remove_experiment(self, reference: str) -> api.Experiment:
        """Remove an ended experiment, with its trials' runs, files and artifacts."""
        return self._call(api.REMOVE_EXPERIMENT, reference)

    def metrics(
        self,
        *references: str,
        names: Sequence[str] = (),
        group: str | None = None,
        points: int | None = None,
        every_rank: bool = False,
    ) -> list[api.MetricSeries]:
        """The metrics of runs: for each the last value, the lowest and the highest.

        With `points`, each has at most that number of points, which draw the same curve. `names` and `group`
        select metrics; `every_rank` adds ranks other than the lowest that reported. Raises NotFound for a
        name that no run has reported.
        """
        query = api.MetricsQuery(
            run=list(references), names=list(names), group=group, points=points, every_rank=every_rank
        )
        return self._call(api.METRICS, query=query)
