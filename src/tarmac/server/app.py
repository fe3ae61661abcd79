"""Builds the application from routes, errors and authentication.

Called by `daemon`, and by tests over fakes.
"""

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
from tarmac.server.routes.accounts import add_account_routes
from tarmac.server.routes.burst import add_burst_routes
from tarmac.server.routes.clusters import add_cluster_routes
from tarmac.server.routes.code import add_code_routes
from tarmac.server.routes.experiments import add_experiment_routes
from tarmac.server.routes.limits import add_limit_routes
from tarmac.server.routes.nodes import add_node_routes
from tarmac.server.routes.pages import add_page_routes, page_routes
from tarmac.server.routes.queue import add_queue_routes
from tarmac.server.routes.runs import add_following_routes, add_run_routes
from tarmac.server.routes.server import add_server_routes
from tarmac.server.routes.sessions import add_session_routes
from tarmac.server.routes.storage import add_storage_routes
from tarmac.server.routes.submitting import add_submitting_routes
from tarmac.server.routes.tables import add_table_routes
from tarmac.server.service import Service
from tarmac.server.settings import AddressSettings


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
        routes=[
            *routes.routes,
            Route(f"{BASE}/openapi.json", described),
            *page_routes(service, PageFiles()),
        ],
        exception_handlers=error_handlers(home),
    )


def routes_of(service: Service) -> Routes:
    """The routes of all operations."""
    routes = Routes()
    add_submitting_routes(routes, service)
    add_code_routes(routes, service)
    add_run_routes(routes, service)
    add_following_routes(routes, service)
    add_session_routes(routes, service)
    add_experiment_routes(routes, service)
    add_queue_routes(routes, service)
    add_node_routes(routes, service)
    add_limit_routes(routes, service)
    add_cluster_routes(routes, service)
    add_burst_routes(routes, service)
    add_storage_routes(routes, service)
    add_table_routes(routes, service)
    add_account_routes(routes, service)
    add_server_routes(routes, service)
    add_page_routes(routes, service)
    return routes
