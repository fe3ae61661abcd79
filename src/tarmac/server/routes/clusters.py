"""Clusters, their nodes and queues, and the limits and credits for their use. Joined by `server.app`."""

from collections.abc import Iterable
from functools import partial

from tarmac import api
from tarmac.api.operation import Query
from tarmac.control.pool_changes import set_pool
from tarmac.control.queue.lines import page_of
from tarmac.dialects.clusterfile import check_cluster_name, read_cluster
from tarmac.dialects.hosts_file import read_machines
from tarmac.dialects.pool_rules import edited
from tarmac.model.abilities import KeptImage
from tarmac.model.cluster import Cluster, Finding, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, suggestion
from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit
from tarmac.model.people.usage import UsedSlots
from tarmac.sched import Part
from tarmac.server.http.routing import Call, serve
from tarmac.server.records import node_record
from tarmac.server.service import Handlers, Service

WAIT_S = 10.0
"""Maximum time that a request about a change waits for news."""


class ClusterHandlers(Handlers):
    """The routes about the queue, nodes, limits and clusters, also those that are started over SSH."""

    @serve(api.QUEUE)
    def queue(self, call: Call[api.QueueQuery]) -> list[api.QueuePool]:
        """Return the queue of each pool: its runs that hold slots or wait, in scheduling order.

        Ended runs are left out.
        """
        query = call.query
        pools = _selected_pools(self.plane.pools(call.actor), query)
        owner = call.actor.user if query.mine else None
        part = Part(limit=query.limit, after=query.after - 1, owner=owner)
        chosen = {"cluster": query.cluster, "pool": query.pool}
        return _joined(self.plane.queue(call.actor, part, **chosen, by_array=query.arrays), pools)

    @serve(api.CHANGE_QUEUE)
    def change_queue(self, call: Call[api.QueueChangeQuery, api.ChangesBody]) -> list[api.QueuePool]:
        """Make all of these changes in one transaction, and return the queues of the affected pools.

        The server checks the changes as if they were made one after another. If one of them is refused, none
        is made, and the error has every reason.
        """
        changed = self.plane.reorder(call.actor, call.body.changes)
        ids = frozenset(run.id for run in changed)
        found = self.plane.queue(call.actor, Part(limit=call.query.limit, also=ids))
        touched = {_key(page) for page in found if any(entry.id in ids for entry in page.runs)}
        # A run that holds slots is listed with these until it has left them.
        moved = {run.place.pool for run in changed if run.place.pool is not None}
        touched |= {(cluster, pool) for cluster, _ in touched for pool in moved}
        pools = [pool for pool in self.plane.pools(call.actor) if pool.key in touched]
        return _joined([page for page in found if _key(page) in touched], pools)

    @serve(api.RESERVATIONS)
    def reservations(self, call: Call) -> list[api.Reservation]:
        """Return the reservations of nodes that have not ended, by their begin."""
        return self.plane.reservations.all(call.actor)

    @serve(api.RESERVE)
    def reserve(self, call: Call[Query, api.ReserveBody]) -> api.Reservation:
        """Reserve these nodes for a time, all of them or none. Repeating it has no effect.

        409 if another reservation has the name, or one of the nodes at that time.
        """
        return self.plane.reservations.make(call.actor, call.body)

    @serve(api.RELEASE)
    def release(self, call: Call) -> api.Reservation:
        """End a reservation now, or cancel it, and return it."""
        return self.plane.reservations.release(call.actor, call.reference)

    @serve(api.NODES)
    def nodes(self, call: Call[api.NodesQuery]) -> list[api.Node]:
        """Return nodes, with their runs."""
        query = call.query
        choice = api.NodeChoice(cluster=query.cluster, pool=query.pool, shard=query.shard)
        return [node_record(report) for report in self.plane.nodes(call.actor, choice)]

    @serve(api.REMOVE_IMAGE)
    def remove_image(self, call: Call[api.ImageQuery]) -> list[KeptImage]:
        """Remove an image, by name or digest, from every node that has it, and return the removed ones.

        409 while a run uses it.
        """
        query = call.query
        return list(
            self.service.images.remove(call.actor, query.image, cluster=query.cluster, node=query.node)
        )

    @serve(api.UTILIZATION)
    def utilization(self, call: Call) -> list[api.RunUtilization]:
        """Return the current utilization of live runs, by run; runs of a few seconds are not measured."""
        return self.plane.usage.utilization(call.actor)

    @serve(api.DRAIN)
    def drain(self, call: Call[Query, api.DrainBody]) -> list[api.Node]:
        """Drain these nodes, all of them or none: they get no new work, and current runs continue."""
        found = self.plane.set_drained(call.actor, call.body, True, call.body.reason.strip())
        return [node_record(report) for report in found]

    @serve(api.UNDRAIN)
    def undrain(self, call: Call[Query, api.NodeChoice]) -> list[api.Node]:
        """Assign work to these drained nodes again."""
        return [node_record(report) for report in self.plane.set_drained(call.actor, call.body, False)]

    @serve(api.IMAGES)
    def every_image(self, call: Call[api.ImagesQuery]) -> api.ImageList:
        """Return the images on the nodes."""
        return self.service.images.all(call.actor, cluster=call.query.cluster, node=call.query.node)

    @serve(api.USAGE)
    def usage(self, call: Call[api.UsageQuery]) -> list[UsedSlots]:
        """Return the usage in a range of time, by user, project, cluster and pool, and by day or month."""
        query = call.query
        return self.plane.usage.used_slots(call.actor, query.since, query.until, query.per)

    @serve(api.USAGE_HISTORY)
    def usage_history(self, call: Call[api.UsageHistoryQuery]) -> list[api.SlotHistory]:
        """Return the mean number of slots in use over time, by pool."""
        return self.plane.usage.history(call.actor, call.query.since, call.query.steps)

    @serve(api.LIMITS)
    def every_limit(self, call: Call) -> list[Limit]:
        """Return the limits of users, projects and pools; null: no limit."""
        return self.plane.limits.limits(call.actor)

    @serve(api.SET_LIMITS)
    def set_limits(self, call: Call[Query, api.LimitBody]) -> Limit:
        """Change the limits of a user, a project, a pool, or of several of these together.

        Only an administrator may. 404 for an unknown pool, and where there is nothing to unset.
        """
        return self.plane.limits.set(call.actor, call.body)

    @serve(api.CREDITS)
    def credits(self, call: Call) -> list[CreditAccount]:
        """Return the accounts of credits; a user or project without one uses no credits."""
        return self.plane.limits.accounts(call.actor)

    @serve(api.GRANT_CREDITS)
    def grant_credits(self, call: Call[Query, api.GrantBody]) -> CreditAccount:
        """Grant credits, or correct an account. Only an administrator may.

        404 for a correction of a user or project without an account.
        """
        return self.plane.limits.grant(call.actor, call.body)

    @serve(api.CREDIT_ENTRIES)
    def credit_entries(self, call: Call[api.LedgerQuery]) -> list[CreditEntry]:
        """Return a page of the ledger, the newest entries first. No entry is ever changed or removed."""
        return self.plane.limits.ledger(call.actor, call.query)

    @serve(api.SET_POOL)
    def change_rules(self, call: Call[Query, api.PoolBody]) -> api.Cluster:
        """Change rules of one pool of a described cluster, and return the cluster. Running runs continue.

        409 for a pool of the server's own cluster, which its settings describe.
        """
        edit = partial(edited, changes=call.body.rules)
        return set_pool(self.plane, call.actor, call.reference, call.body.pool, edit)

    @serve(api.START_CLUSTER)
    def start_cluster(self, call: Call[Query, api.MachinesBody]) -> api.ClusterChange:
        """Start a cluster on exactly these machines; repeating has no effect. 409 during another change."""
        listed = read_machines(call.body.source, filename=call.body.filename)
        name = check_cluster_name(call.reference)
        return self.plane.cluster_machines.up(call.actor, name, listed, install=call.body.install)

    @serve(api.END_CLUSTER)
    def end_cluster(self, call: Call[Query, api.DownBody]) -> api.ClusterChange:
        """Start to end a cluster that was started. 409 while runs hold or need it, unless forced."""
        return self.plane.cluster_machines.down(
            call.actor, call.reference, force=call.body.force, purge=call.body.purge
        )

    @serve(api.CLUSTER_CHANGE)
    def cluster_change(self, call: Call[api.ChangeQuery]) -> api.ClusterChange:
        """Return the progress of `up` or `down`, after 10 s at the latest. 404 if this server began none."""
        return self.plane.cluster_machines.progress(
            call.actor, call.reference, call.query.after, wait_s=WAIT_S
        )

    @serve(api.CLUSTER_MACHINES)
    def cluster_machines(self, call: Call) -> api.ClusterStatus:
        """Return the state of a started cluster's machines, as they report it. May take long."""
        return self.plane.cluster_machines.status(call.actor, call.reference)

    @serve(api.ADD_CLUSTER)
    def add_cluster(self, call: Call[Query, api.ClusterBody]) -> api.Cluster:
        """Add a described cluster. A repeated description has no effect; a changed one requires `replace`.

        409 for a changed one without `replace`, and while runs hold or need anything that it would remove.
        """
        reading = read_cluster(call.body.source, filename=call.body.filename)
        added = self.plane.clusters.add(call.actor, reading.cluster, replacing=call.body.replace)
        missing = _missing_login(self.service, reading.cluster, call.actor.user)
        return replace(added, warnings=(*reading.warnings, *missing))

    @serve(api.REMOVE_CLUSTER)
    def remove_cluster(self, call: Call) -> api.Cluster:
        """Remove a described cluster and return its record. 409 while runs hold or need it."""
        self.plane.clusters.check_removal(call.actor, call.reference)
        # Takes long; a run may arrive meanwhile.
        warnings = self.service.artifacts.fetch_all(call.actor, call.reference)
        return replace(self.plane.clusters.remove(call.actor, call.reference), warnings=warnings)

    @serve(api.CLUSTERS)
    def clusters(self, call: Call) -> list[api.Cluster]:
        """Return every persistent cluster; those of rehearsals exist only as long as their runs."""
        return self.plane.clusters.all(call.actor)

    @serve(api.CLUSTER)
    def cluster(self, call: Call) -> api.Cluster:
        """Return one cluster (or rehearsal), its pools with their rules, and its nodes by kind."""
        return self.plane.clusters.show(call.actor, call.reference)

    @serve(api.CHECK_CLUSTER)
    def check_cluster(self, call: Call) -> list[Finding]:
        """Test a cluster for the requirements of a run, and return the results. May take long."""
        return self.plane.clusters.examine(call.actor, call.reference)


def _key(page: api.QueuePool) -> tuple[str, str]:
    return page.cluster, page.pool


def _joined(pages: Iterable[api.QueuePool], pools: Iterable[Pool]) -> list[api.QueuePool]:
    """One record for each of `pools` and each other pool that has runs, in that order.

    Another pool is of a removed cluster, or of one that has not reported its nodes yet.
    """
    found = {pool.key: page_of(pool, 0, ()) for pool in pools}
    for page in pages:
        known = found.get(_key(page), page)
        if known is not page:
            following = max(filter(None, (known.next, page.next)), default=None)
            total, runs = known.total + page.total, known.runs + page.runs
            found[_key(page)] = replace(known, total=total, runs=runs, next=following)
        elif page.total:
            found[_key(page)] = page
    return list(found.values())


def _selected_pools(pools: tuple[Pool, ...], query: api.QueueQuery) -> list[Pool]:
    """The requested pools; NotFound for the name of no pool."""
    for what, name, known in (
        ("cluster", query.cluster, {pool.cluster for pool in pools}),
        ("pool", query.pool, {pool.name for pool in pools}),
    ):
        if name is not None and name not in known:
            hint = suggestion(name, known, f"there are: {', '.join(sorted(known))}")
            raise NotFound(f"there is no {what} {name!r}", hint=hint)
    return [
        pool for pool in pools if query.cluster in (None, pool.cluster) and query.pool in (None, pool.name)
    ]


def _missing_login(service: Service, cluster: Cluster, user: str) -> tuple[str, ...]:
    """The warning for a user without the credentials that a cluster needs."""
    try:
        service.secrets.login_of(cluster, user)
    except InvalidInput as error:
        return (f"{error.message}: {error.hint}",)
    return ()
