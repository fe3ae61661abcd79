"""`/healthz` and `/metrics`: for monitoring the server. Joined to the application by `server.app`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from tarmac import api
from tarmac.server.exposition import CONTENT_TYPE, rendered
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.operation import failures, metrics
from tarmac.server.service import Service


def operation_routes(router: APIRouter, service: Service) -> None:
    """Add the routes of the top level, outside `/api/v1`."""

    @router.get("/healthz", response_model=api.Health)
    def healthz() -> Response:
        """Return whether the server works: 200, or 503 with the reasons."""
        reasons = failures(service)
        return JsonAnswer(
            api.Health(healthy=not reasons, reasons=reasons), status_code=503 if reasons else 200
        )

    @router.get("/metrics", response_class=PlainTextResponse)
    def numbers() -> Response:
        """Return the numbers of the server, in the text format of Prometheus."""
        return Response(rendered(metrics(service, service.requests)), media_type=CONTENT_TYPE)
