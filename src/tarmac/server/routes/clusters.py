"""`/clusters`: lists, adds, replaces and removes described clusters. Joined by `server.app`."""

from functools import partial

from tarmac import api
from tarmac.api.operation import Query
from tarmac.control.pool_changes import set_pool
from tarmac.dialects.clusterfile import check_cluster_name, read_cluster
from tarmac.dialects.hosts_file import read_machines
from tarmac.dialects.pool_rules import edited
from tarmac.model.cluster import Cluster, Finding
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.server.http.routing import Call, Handlers, serve
from tarmac.server.service import Service

WAIT_S = 10.0
"""Maximum time that a request about a change waits for news."""


class ClusterHandlers(Handlers):
    """The routes about clusters, also about those that are started over SSH."""

    @serve(api.SET_POOL)
    def change_rules(self, call: Call[Query, api.PoolBody]) -> api.Cluster:
        """Change rules of one pool of a described cluster, and return the cluster. Running runs continue.

        409 for a pool of the server's own cluster, which its settings describe.
        """
        edit = partial(edited, changes=call.body.rules)
        return set_pool(self.plane, call.actor, call.reference, call.body.pool, edit)

    @serve(api.START_CLUSTER)
    def start(self, call: Call[Query, api.MachinesBody]) -> api.ClusterChange:
        """Start a cluster on exactly these machines; repeating has no effect. 409 during another change."""
        listed = read_machines(call.body.source, filename=call.body.filename)
        name = check_cluster_name(call.reference)
        return self.plane.cluster_machines.up(call.actor, name, listed, install=call.body.install)

    @serve(api.END_CLUSTER)
    def end(self, call: Call[Query, api.DownBody]) -> api.ClusterChange:
        """Start to end a cluster that was started. 409 while runs hold or need it, unless forced."""
        return self.plane.cluster_machines.down(
            call.actor, call.reference, force=call.body.force, purge=call.body.purge
        )

    @serve(api.CLUSTER_CHANGE)
    def change(self, call: Call[api.ChangeQuery]) -> api.ClusterChange:
        """Return the progress of `up` or `down`, after 10 s at the latest. 404 if this server began none."""
        return self.plane.cluster_machines.progress(
            call.actor, call.reference, call.query.after, wait_s=WAIT_S
        )

    @serve(api.CLUSTER_MACHINES)
    def cluster_machines(self, call: Call) -> api.ClusterStatus:
        """Return the state of a started cluster's machines, as they report it. May take long."""
        return self.plane.cluster_machines.status(call.actor, call.reference)

    @serve(api.ADD_CLUSTER)
    def add(self, call: Call[Query, api.ClusterBody]) -> api.Cluster:
        """Add a described cluster. A repeated description has no effect; a changed one requires `replace`.

        409 for a changed one without `replace`, and while runs hold or need anything that it would remove.
        """
        reading = read_cluster(call.body.source, filename=call.body.filename)
        added = self.plane.clusters.add(call.actor, reading.cluster, replacing=call.body.replace)
        missing = _missing_login(self.service, reading.cluster, call.actor.user)
        return replace(added, warnings=(*reading.warnings, *missing))

    @serve(api.REMOVE_CLUSTER)
    def remove(self, call: Call) -> api.Cluster:
        """Remove a described cluster and return its record. 409 while runs hold or need it."""
        self.plane.clusters.check_removal(call.actor, call.reference)
        # Takes long; a run may arrive meanwhile.
        warnings = self.service.artifacts.fetch_all(call.actor, call.reference)
        return replace(self.plane.clusters.remove(call.actor, call.reference), warnings=warnings)

    @serve(api.CLUSTERS)
    def every(self, call: Call) -> list[api.Cluster]:
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


def _missing_login(service: Service, cluster: Cluster, user: str) -> tuple[str, ...]:
    """The warning for a user without the credentials that a cluster needs."""
    try:
        service.secrets.login_of(cluster, user)
    except InvalidInput as error:
        return (f"{error.message}: {error.hint}",)
    return ()
