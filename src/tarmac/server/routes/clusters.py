"""`/clusters`: lists, adds, replaces and removes described clusters. Joined by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac import api
from tarmac.control.cluster_machines import ClusterMachines
from tarmac.dialects.clusterfile import check_cluster_name, read_cluster
from tarmac.dialects.hosts_file import read_machines
from tarmac.model.engine_kinds import Finding
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.clusters import cluster_record
from tarmac.server.requests import ClusterBody, DownBody, MachinesBody, Whole
from tarmac.server.service import Service

WAIT_S = 10.0
"""Maximum time that a request about a change waits for news."""


def cluster_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about clusters."""
    clusters = service.plane.clusters

    @router.get("/clusters", response_model=list[api.Cluster])
    def every(actor: CallingActor) -> Response:
        """Return every persistent cluster; those of rehearsals exist only as long as their runs."""
        return JsonAnswer([cluster_record(report) for report in clusters.all(actor)])

    @router.get("/clusters/{name}", response_model=api.Cluster)
    def one(actor: CallingActor, name: str) -> Response:
        """Return one cluster, its pools with their rules, and its nodes by kind."""
        return JsonAnswer(cluster_record(clusters.show(actor, name)))

    @router.get("/clusters/{name}/check", response_model=list[Finding])
    def check(actor: CallingActor, name: str) -> Response:
        """Test a cluster for the requirements of a run, and return the results. May take long."""
        return JsonAnswer(clusters.examine(actor, name))

    @router.post("/clusters", response_model=api.Cluster)
    def add(actor: CallingActor, body: ClusterBody) -> Response:
        """Add a described cluster. A repeated description has no effect; a changed one requires `replace`."""
        reading = read_cluster(body.source, filename=body.filename)
        report = clusters.add(actor, reading.cluster, replacing=body.replace)
        return JsonAnswer(cluster_record(report, warnings=reading.warnings))

    _machine_routes(router, service.plane.cluster_machines)

    @router.delete("/clusters/{name}", response_model=api.Cluster)
    def remove(actor: CallingActor, name: str) -> Response:
        """Remove a described cluster and return its record. Refused while runs hold or need it."""
        clusters.check_removal(actor, name)
        warnings = service.artifacts.fetch_all(actor, name)  # takes long; a run may arrive meanwhile
        return JsonAnswer(cluster_record(clusters.remove(actor, name), warnings=warnings))


def _machine_routes(router: APIRouter, machines: ClusterMachines) -> None:
    """Add the routes about clusters that are started over SSH."""

    @router.put("/clusters/{name}/machines", response_model=api.ClusterChange)
    def up(actor: CallingActor, name: str, body: MachinesBody) -> Response:
        """Start to run a cluster of this name on exactly these machines. A repeated request has no effect."""
        listed = read_machines(body.source, filename=body.filename)
        named = check_cluster_name(name)
        return JsonAnswer(machines.up(actor, named, listed, install=body.install))

    @router.post("/clusters/{name}/down", response_model=api.ClusterChange)
    def down(actor: CallingActor, name: str, body: DownBody) -> Response:
        """Start to end a cluster that was started. Refused while runs hold or need it, unless forced."""
        return JsonAnswer(machines.down(actor, name, force=body.force, purge=body.purge))

    @router.get("/clusters/{name}/machines", response_model=api.ClusterStatus)
    def status(actor: CallingActor, name: str) -> Response:
        """Return the state of a started cluster's machines, as they report it. May take long."""
        return JsonAnswer(machines.status(actor, name))

    @router.get("/clusters/{name}/change", response_model=api.ClusterChange)
    def change(actor: CallingActor, name: str, after: Whole = 0) -> Response:
        """Return the progress of `up` or `down`, once it has lines from number `after` on or is over."""
        return JsonAnswer(machines.progress(actor, name, max(0, after), wait_s=WAIT_S))
