"""`/nodes`: the machines and their runs. Joined to the application by `server.app`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from tarmac import api
from tarmac.control.draining import NodeChoice
from tarmac.model.actor import Actor
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.runs import node_record
from tarmac.server.requests import DrainBody, NodesBody
from tarmac.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParameters:
    """The query of `/nodes`."""

    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None


def node_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about nodes."""
    plane = service.plane

    @router.get("/nodes", response_model=list[api.Node])
    def nodes(actor: CallingActor, parameters: Annotated[NodeParameters, Depends()]) -> Response:
        """Return every node (of a cluster, a pool, a shard), with its runs."""
        choice = NodeChoice(cluster=parameters.cluster, pool=parameters.pool, shard=parameters.shard)
        return JsonAnswer([node_record(report) for report in plane.nodes(actor, choice)])

    @router.post("/nodes/drain", response_model=list[api.Node])
    def drain(actor: CallingActor, body: DrainBody) -> Response:
        """Assign no new work to these nodes, to all of them or none; current runs continue."""
        return _set_drained(actor, body, True, reason=body.reason.strip())

    @router.post("/nodes/undrain", response_model=list[api.Node])
    def undrain(actor: CallingActor, body: NodesBody) -> Response:
        """Assign work to these drained nodes again."""
        return _set_drained(actor, body, False)

    def _set_drained(actor: Actor, body: NodesBody, drained: bool, reason: str = "") -> Response:
        choice = NodeChoice(names=tuple(body.nodes), cluster=body.cluster, pool=body.pool, shard=body.shard)
        changed = plane.set_drained(actor, choice, drained, reason)
        return JsonAnswer([node_record(report) for report in changed])
