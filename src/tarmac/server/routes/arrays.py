"""`/runs/{ref}/array`: how far all members of an array are. Joined by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac import api
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.runs import array_record
from tarmac.server.service import Service


def array_routes(router: APIRouter, service: Service) -> None:
    """Add the route about arrays."""
    plane = service.plane

    @router.get("/runs/{ref}/array", response_model=api.Array)
    def array(actor: CallingActor, ref: str) -> Response:
        """The array that is meant, or that a run is a member of: how far all its members are."""
        return JsonAnswer(array_record(plane.array(actor, ref)))
