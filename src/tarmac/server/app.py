"""Builds the application from routes, errors and authentication.

Called by `daemon`, and by tests over fakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.datastructures import DefaultPlaceholder

import tarmac
from tarmac import api
from tarmac.model.home import Home
from tarmac.server.http import errors
from tarmac.server.http.answers import Answers
from tarmac.server.http.auth import Access, AuthMiddleware
from tarmac.server.http.bodies import Bodies
from tarmac.server.http.opening import OpenInTurn
from tarmac.server.routes.annotations import annotation_routes
from tarmac.server.routes.arrays import array_routes
from tarmac.server.routes.artifacts import artifact_routes
from tarmac.server.routes.clusters import cluster_routes
from tarmac.server.routes.code import code_routes
from tarmac.server.routes.datasets import dataset_routes
from tarmac.server.routes.experiments import experiment_routes
from tarmac.server.routes.following import following_routes
from tarmac.server.routes.images import image_routes
from tarmac.server.routes.metrics import metric_routes
from tarmac.server.routes.nodes import node_routes
from tarmac.server.routes.notifications import notification_routes
from tarmac.server.routes.numbers import number_routes
from tarmac.server.routes.operation import operation_routes
from tarmac.server.routes.queue import queue_routes
from tarmac.server.routes.runs import run_routes
from tarmac.server.routes.secrets import secret_routes
from tarmac.server.routes.server import server_routes
from tarmac.server.routes.sessions import session_routes
from tarmac.server.routes.submitting import submitting_routes
from tarmac.server.routes.usage import usage_routes
from tarmac.server.routes.work_files import work_file_routes
from tarmac.server.service import Service

BASE = "/api/v1"

_ROUTES = (
    (submitting_routes, "runs"),
    (code_routes, "code"),
    (run_routes, "runs"),
    (experiment_routes, "experiments"),
    (annotation_routes, "runs"),
    (notification_routes, "runs"),
    (array_routes, "runs"),
    (work_file_routes, "runs"),
    (following_routes, "following"),
    (metric_routes, "metrics"),
    (session_routes, "sessions"),
    (queue_routes, "queue"),
    (node_routes, "nodes"),
    (cluster_routes, "clusters"),
    (usage_routes, "usage"),
    (number_routes, "runs"),
    (artifact_routes, "artifacts"),
    (dataset_routes, "datasets"),
    (secret_routes, "secrets"),
    (image_routes, "images"),
    (server_routes, "server"),
)
_TOP_ROUTES = ((operation_routes, "operation"),)
"""Routes outside `BASE`, at the usual paths for monitoring."""


def build(service: Service, *, home: Home, access: Access) -> AuthMiddleware:
    """The whole application of a service, behind its access rules."""
    app = OpenInTurn(Bodies(routed(service, home=home)))
    return AuthMiddleware(app, access=access, version=tarmac.__version__, requests=service.requests)


def routed(service: Service, *, home: Home) -> FastAPI:
    """The application without authentication."""
    app = Application(service)
    errors.install(app, home)
    return app


class Application(FastAPI):
    """The routes without models of their answers, which only describe the API.

    Building these takes longer than all other work on the routes, so `openapi` does it on demand.
    """

    def __init__(self, service: Service) -> None:
        super().__init__(**_TITLE)
        self._service = service
        _add_routes(self, service, lambda prefix, tag: ServedRouter(prefix=prefix, tags=[tag]))

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            described = FastAPI(**_TITLE)
            answers = Answers()
            _add_routes(described, self._service, lambda prefix, tag: DescribedRouter(answers, prefix, tag))
            self.openapi_schema = described.openapi()
            self.openapi_schema["components"]["schemas"] |= answers.schemas()
        return self.openapi_schema


class ServedRouter(APIRouter):
    """A router without descriptive parts: every route here returns its own `Response`."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().add_api_route(path, endpoint, **{**options, "response_model": None})


class DescribedRouter(APIRouter):
    """A router whose routes are described with the records that they answer."""

    def __init__(self, answers: Answers, prefix: str, tag: str) -> None:
        super().__init__(prefix=prefix, tags=[tag])
        self._answers = answers

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        responses: dict[int | str, dict[str, Any]]
        responses = {"4XX": self._answers.described(api.Error), "5XX": self._answers.described(api.Error)}
        kind = options.pop("response_model", None)
        if kind is not None and not isinstance(kind, DefaultPlaceholder):
            responses[options.get("status_code") or 200] = self._answers.described(kind)
        responses |= options.pop("responses", None) or {}
        super().add_api_route(path, endpoint, response_model=None, responses=responses, **options)


def _add_routes(app: FastAPI, service: Service, router_of: Callable[[str, str], APIRouter]) -> None:
    """Add every route to an application, without `include_router`, which builds each a second time."""
    for prefix, add, tag in (
        *((BASE, *route) for route in _ROUTES),
        *(("", *route) for route in _TOP_ROUTES),
    ):
        router = router_of(prefix, tag)
        add(router, service)
        app.router.routes.extend(router.routes)


_TITLE: Any = {
    "title": "tarmac",
    "version": tarmac.__version__,
    "openapi_url": f"{BASE}/openapi.json",
    "docs_url": None,  # both pages would load scripts from other servers
    "redoc_url": None,
}
