"""The operations on rented machines: providers, shapes, rentals, and the approval of burst runs.

Bound by `server.routes`, called by `client`.
"""

from typing import Annotated

from msgspec import Meta

from tarmac.api.cluster_operations import Time
from tarmac.api.operation import Body, Operation, Query
from tarmac.model.actor import Action
from tarmac.model.burst import rentals, shapes
from tarmac.model.burst.provider import ProviderRecord, ProviderTerms, RentedThing
from tarmac.model.burst.shapes import Stock
from tarmac.model.cluster import Finding
from tarmac.model.summary import RunSummary

MOST_SHAPES = 10_000


class ProviderBody(
    ProviderTerms, Body, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A provider to add."""

    name: Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


class ListedShape(shapes.Shape, frozen=True, kw_only=True):
    """A shape, and the stock that the last try to rent it found (null: it was never tried)."""

    stock: Stock | None


class ShapeBody(
    shapes.Shape, Body, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A shape to store."""


class ShapesBody(Body, frozen=True, kw_only=True):
    """Shapes, each in place of the one of its id. `replacing` a provider removes all its other shapes."""

    shapes: Annotated[list[ShapeBody], Meta(max_length=MOST_SHAPES)]
    replacing: str | None = None


class RentalsQuery(Query, frozen=True, kw_only=True):
    """The rentals of one run, or of all; those requested before `since` only while they are open."""

    run: str | None = None
    since: Time = 0.0


class Rental(rentals.Rental, frozen=True, kw_only=True):
    """A rental, the name of its run, and the money that it has cost so far, in the currency of its shape."""

    run_name: str
    spent: float


PROVIDERS = Operation("GET", "/providers", Action.MANAGE, list[ProviderRecord])
ADD_PROVIDER = Operation("POST", "/providers", Action.MANAGE, ProviderRecord, body=ProviderBody)
REMOVE_PROVIDER = Operation("DELETE", "/providers/{provider}", Action.MANAGE, ProviderRecord)
CHECK_PROVIDER = Operation("GET", "/providers/{provider}/check", Action.MANAGE, list[Finding])
STRANGERS = Operation("GET", "/burst/strangers", Action.MANAGE, list[RentedThing])
SHAPES = Operation("GET", "/shapes", Action.READ, list[ListedShape])
SET_SHAPES = Operation("PUT", "/shapes", Action.MANAGE, list[ListedShape], body=ShapesBody)
REFRESH_SHAPES = Operation("POST", "/shapes/refresh", Action.MANAGE, list[ListedShape])
REMOVE_SHAPE = Operation("DELETE", "/shapes/{shape}", Action.MANAGE, shapes.Shape)
RENTALS = Operation("GET", "/burst/rentals", Action.READ, list[Rental], query=RentalsQuery)
STAGED_RUNS = Operation("GET", "/burst/staged", Action.READ, list[RunSummary])
OFFERS = Operation("GET", "/runs/{run}/offers", Action.READ, list[shapes.Offer])
APPROVE = Operation("POST", "/runs/{run}/approve", Action.CONTROL, Rental)
