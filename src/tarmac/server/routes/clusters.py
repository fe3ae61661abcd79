"""`/clusters`: which there are; adding, replacing and removing described ones. Joined by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac import api
from tarmac.dialects.clusterfile import read_cluster
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.clusters import cluster_record
from tarmac.server.records.copying import copy_fields
from tarmac.server.requests import ClusterBody
from tarmac.server.service import Service


def cluster_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about clusters."""
    clusters = service.plane.clusters

    @router.get("/clusters", response_model=list[api.Cluster])
    def every(actor: CallingActor) -> Response:
        """Every lasting cluster; those of rehearsals come and go with their runs."""
        return JsonAnswer([cluster_record(report) for report in clusters.all(actor)])

    @router.get("/clusters/{name}", response_model=api.Cluster)
    def one(actor: CallingActor, name: str) -> Response:
        """One cluster, its pools with their rules, and its nodes by kind."""
        return JsonAnswer(cluster_record(clusters.show(actor, name)))

    @router.get("/clusters/{name}/check", response_model=list[api.Finding])
    def check(actor: CallingActor, name: str) -> Response:
        """Try what a run needs on a cluster, and say what was found. May take long."""
        return JsonAnswer([copy_fields(api.Finding, finding) for finding in clusters.examine(actor, name)])

    @router.post("/clusters", response_model=api.Cluster)
    def add(actor: CallingActor, body: ClusterBody) -> Response:
        """Take up a described cluster. The same description twice is one; another one wants `replace`."""
        reading = read_cluster(body.source, filename=body.filename)
        report = clusters.add(actor, reading.cluster, replacing=body.replace)
        return JsonAnswer(cluster_record(report, warnings=reading.warnings))

    @router.delete("/clusters/{name}", response_model=api.Cluster)
    def remove(actor: CallingActor, name: str) -> Response:
        """Forget a described cluster; the answer is what it was. Refused while runs hold or need it."""
        return JsonAnswer(cluster_record(clusters.remove(actor, name)))
