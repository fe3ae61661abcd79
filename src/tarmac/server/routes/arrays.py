"""`/runs/{ref}/array`: the progress of all members of an array. Joined by `server.app`."""

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
        """Return the progress of an array, named by itself or by one of its members."""
        return JsonAnswer(array_record(plane.array(actor, ref)))
