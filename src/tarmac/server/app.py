"""The application: routes, errors and the rim put together. Called by `daemon`, and by tests over fakes."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

import tarmac
from tarmac.model.home import Home
from tarmac.server import errors
from tarmac.server.bodies import Bodies
from tarmac.server.rim import Access, Rim
from tarmac.server.routes.artifacts import artifact_routes
from tarmac.server.routes.clusters import cluster_routes
from tarmac.server.routes.code import code_routes
from tarmac.server.routes.datasets import dataset_routes
from tarmac.server.routes.following import following_routes
from tarmac.server.routes.nodes import node_routes
from tarmac.server.routes.queue import queue_routes
from tarmac.server.routes.runs import run_routes
from tarmac.server.routes.secrets import secret_routes
from tarmac.server.routes.server import server_routes
from tarmac.server.routes.submitting import submitting_routes
from tarmac.server.schemas.server import Error
from tarmac.server.service import Service

BASE = "/api/v1"

_ROUTES = (
    submitting_routes,
    code_routes,
    run_routes,
    following_routes,
    queue_routes,
    node_routes,
    cluster_routes,
    artifact_routes,
    dataset_routes,
    secret_routes,
    server_routes,
)


def build(service: Service, *, home: Home, access: Access) -> Rim:
    """The whole application over a service, behind its access rules."""
    return Rim(Bodies(routed(service, home=home)), access=access, version=tarmac.__version__)


def routed(service: Service, *, home: Home) -> FastAPI:
    """The application without its rim."""
    app = FastAPI(
        title="tarmac",
        version=tarmac.__version__,
        openapi_url=f"{BASE}/openapi.json",
        docs_url=None,  # both pages would load scripts from elsewhere
        redoc_url=None,
        responses={"4XX": {"model": Error}, "5XX": {"model": Error}},
    )
    errors.install(app, home)
    api = APIRouter(prefix=BASE)
    for make in _ROUTES:
        api.include_router(make(service))
    app.include_router(api)
    return app
