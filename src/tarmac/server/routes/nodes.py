"""`/nodes`: the machines and what they hold. Joined to the application by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac.server.answers import JsonAnswer
from tarmac.server.records import node_record
from tarmac.server.schemas.placement import Node
from tarmac.server.service import Service


def node_routes(service: Service) -> APIRouter:
    """The routes about nodes."""
    router = APIRouter(tags=["nodes"])
    plane = service.plane

    @router.get("/nodes", response_model=list[Node])
    def nodes() -> Response:
        """Every node, and what it holds."""
        return JsonAnswer([node_record(report) for report in plane.nodes()])

    @router.post("/nodes/{name}/drain", response_model=Node)
    def drain(name: str) -> Response:
        """Give a node no new work; what runs there goes on."""
        return JsonAnswer(node_record(plane.set_drained(name, True)))

    @router.post("/nodes/{name}/undrain", response_model=Node)
    def undrain(name: str) -> Response:
        """Give a drained node work again."""
        return JsonAnswer(node_record(plane.set_drained(name, False)))

    return router
