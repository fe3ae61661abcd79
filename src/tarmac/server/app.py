"""Builds the application from routes, errors and authentication.

Called by `daemon`, and by tests over fakes.
"""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

import tarmac
from tarmac.api.operation import BASE
from tarmac.model.home import Home
from tarmac.server.announcing import Announced
from tarmac.server.http.answers import JsonAnswer, error_handlers
from tarmac.server.http.auth import Access, Audit, AuthMiddleware
from tarmac.server.http.connections import Bodies
from tarmac.server.http.hosts import RequestChecks, machine_names
from tarmac.server.http.openapi import openapi
from tarmac.server.http.rates import Rates
from tarmac.server.http.routing import Routes
from tarmac.server.logs.streams import OpenInTurn
from tarmac.server.page.files import PageFiles
from tarmac.server.routes.accounts import AccountHandlers
from tarmac.server.routes.burst import BurstHandlers
from tarmac.server.routes.clusters import ClusterHandlers
from tarmac.server.routes.code import CodeHandlers
from tarmac.server.routes.experiments import ExperimentHandlers
from tarmac.server.routes.pages import PageHandlers, page_routes
from tarmac.server.routes.runs import RunHandlers
from tarmac.server.routes.sessions import SessionHandlers
from tarmac.server.routes.storage import StorageHandlers
from tarmac.server.routes.submitting import SubmittingHandlers
from tarmac.server.routes.tables import TableHandlers
from tarmac.server.service import Handlers, Service
from tarmac.server.settings import AddressSettings

_PARTS: Sequence[Callable[[Service], Handlers]] = (
    SubmittingHandlers,
    CodeHandlers,
    RunHandlers,
    SessionHandlers,
    ExperimentHandlers,
    ClusterHandlers,
    BurstHandlers,
    StorageHandlers,
    TableHandlers,
    AccountHandlers,
    PageHandlers,
)
"""In the order of their routes: of those that match a path, the first answers."""


def build(service: Service, *, home: Home, access: Access) -> AuthMiddleware:
    """The whole application of a service, behind its access rules."""
    app = Announced(OpenInTurn(Bodies(routed(service, home=home))), service.announcements)
    return AuthMiddleware(
        app,
        socket_name=access.socket_name,
        callers=service.accounts.callers,
        version=tarmac.__version__,
        requests=service.requests,
        audit=service.audit,
    )


def checked(app: ASGIApp, settings: AddressSettings, rates: Rates, *, audit: Audit) -> ASGIApp:
    """An application for addresses of TCP, behind the checks of each request."""
    names = [*settings.tls_names, *settings.host_names, *machine_names()]
    return RequestChecks(app, names=names, rates=rates, hops=settings.trusted_proxies, audit=audit)


def routed(service: Service, *, home: Home) -> Starlette:
    """The application without authentication."""
    routes = routes_of(service)

    def described(_request: Request) -> Response:
        return JsonAnswer(openapi(routes.offers, version=tarmac.__version__))

    return Starlette(
        routes=[*routes.routes, Route(f"{BASE}/openapi.json", described), *page_routes(service, PageFiles())],
        exception_handlers=error_handlers(home),
    )


def routes_of(service: Service) -> Routes:
    """The routes of all operations."""
    routes = Routes()
    for part in _PARTS:
        routes.add(part(service))
    return routes
