"""`/runs/{ref}/notifications`: the messages about a run and their receivers. Joined by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tarmac import api
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.runs import notification_record
from tarmac.server.service import Service


def notification_routes(router: APIRouter, service: Service) -> None:
    """Add the route about messages."""
    plane = service.plane

    @router.get("/runs/{ref}/notifications", response_model=list[api.Notification])
    def every(actor: CallingActor, ref: str) -> Response:
        """Return the messages about a run, sent or to be sent, oldest first."""
        found = plane.notifications(actor, plane.find(actor, ref).id)
        return JsonAnswer([notification_record(message) for message in found])
