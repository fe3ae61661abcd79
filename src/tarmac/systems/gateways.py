"""The parts of foreign systems in a server: defaults, sources, and the gateway for a command.

Joined by `server.wiring` and `server.daemon`, which know no system by name.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from starlette.types import ASGIApp

from tarmac.dialects.dialect import Dialect
from tarmac.model.actor import Actor
from tarmac.model.home import Home
from tarmac.model.ports import Clock
from tarmac.model.secret import SecretValues
from tarmac.model.spec import RunSpec
from tarmac.server.http.auth import Access
from tarmac.server.http.listeners import token_of
from tarmac.server.service import Service
from tarmac.store import SqlStore
from tarmac.systems.determined.defaults import read_defaults
from tarmac.systems.determined.gateway.specs import with_source
from tarmac.systems.determined.gateway.tokens import OPEN_USERS
from tarmac.systems.determined.reader import NAME
from tarmac.systems.mlflow.tracking import Tracking
from tarmac.systems.registry import for_cluster
from tarmac.systems.settings import Systems

log = logging.getLogger(__name__)

OWNERS = OPEN_USERS
"""The names of other systems for the owner of a server."""

FORWARD_EVERY_S = 1.0
"""The longest time for which a new report waits before it is sent to a tracker."""


def dialects_of(systems: Systems, *, filename: str) -> Sequence[Dialect]:
    """The dialects with the cluster's defaults; raises InvalidInput with every problem in the settings."""
    return for_cluster(read_defaults(systems.determined.of_experiments, filename=filename))


def sources_of(store: SqlStore) -> Mapping[str, Callable[[RunSpec, Actor | None], RunSpec]]:
    """By system, what adds the runs that its files name by number to the inputs of a user's spec."""
    return {NAME: partial(with_source, store=store, numbers=store.numbers)}


def tracking_of(
    store: SqlStore, secrets: SecretValues, clock: Clock, *, server: str, private_addresses: bool
) -> Tracking:
    """The sender of reports to the trackers that runs name: today, those of MLflow."""
    return Tracking(store, secrets, clock, server=server, private_addresses=private_addresses)


def serve_gateway(
    app: ASGIApp, service: Service, store: SqlStore, *, access: Access, home: Home, address: tuple[str, int]
) -> ASGIApp:
    """The application, and the gateway: on this address, and for runs on other machines."""
    from tarmac.systems.determined.gateway.application import at_addresses  # noqa: PLC0415 - few servers
    from tarmac.systems.determined.gateway.gateway import Gateway  # noqa: PLC0415
    from tarmac.systems.determined.gateway.launching import with_gateway  # noqa: PLC0415
    from tarmac.systems.determined.gateway.tokens import TokenMaker  # noqa: PLC0415

    host, port = address
    gateway = Gateway(
        service=service,
        numbers=store.numbers,
        records=store.run_records,
        tokens=TokenMaker(token_of(home), home.logouts),
        owner=access.owner,
        url=f"http://{f'[{host}]' if ':' in host else host}:{port}",
    )
    control = service.plane.control
    control.apply_conventions = with_gateway(gateway, control.apply_conventions)
    log.info("answering Determined's command at %s", gateway.url)
    return at_addresses([address, (home.gateway.name, None)], gateway, otherwise=app)
