"""`/version` and `/server/stop`: the server about itself. Joined to the application by `server.app`."""

from __future__ import annotations

import time

from fastapi import APIRouter
from starlette.background import BackgroundTask
from starlette.responses import Response

import tarmac
from tarmac import api
from tarmac.control.permissions import Action
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import allowed
from tarmac.server.service import Service


def server_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about the server itself."""

    @router.get("/version", response_model=api.Version)
    async def version() -> Response:
        """Return the version of the server."""
        return JsonAnswer(
            api.Version(
                version=tarmac.__version__,
                pid=service.pid,
                home=service.home,
                started_at=service.started_at,
                now=time.time(),
            )
        )

    @router.post("/server/stop", status_code=202, dependencies=[allowed(Action.MANAGE)])
    async def stop() -> Response:
        """Stop the server after this answer. Runs continue, and the next server finds them."""
        return JsonAnswer({}, status_code=202, background=BackgroundTask(service.stop))
