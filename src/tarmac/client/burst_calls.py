"""The methods about rented machines: providers, shapes, rentals and approvals. Inherited by `Client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac import api
from tarmac.client.account_calls import AccountCalls
from tarmac.model.codec import common

if TYPE_CHECKING:
    from tarmac.model.burst.provider import ProviderRecord, RentedThing
    from tarmac.model.burst.shapes import Offer, Shape
    from tarmac.model.cluster import Finding
    from tarmac.model.summary import RunSummary

NONE: Mapping[str, str] = {}


class BurstCalls(AccountCalls):
    """One method per route. Inherited by `Client`."""

    def providers(self) -> list[ProviderRecord]:
        """The providers that rent out machines."""
        return self._call(api.PROVIDERS)

    def add_provider(
        self, name: str, kind: str, settings: Mapping[str, str] = NONE, credentials: Mapping[str, str] = NONE
    ) -> ProviderRecord:
        """Add a provider of a kind; `credentials` name the secrets for its access."""
        body = api.ProviderBody(name=name, kind=kind, settings=settings, credentials=credentials)
        return self._call(api.ADD_PROVIDER, body=body)

    def remove_provider(self, name: str) -> ProviderRecord:
        """Remove a provider without machines, and its shapes; return its last record."""
        return self._call(api.REMOVE_PROVIDER, name)

    def check_provider(self, name: str) -> list[Finding]:
        """Check everything that a provider needs before a machine is rented; return all findings."""
        return self._call(api.CHECK_PROVIDER, name)

    def strangers(self) -> list[RentedThing]:
        """The things in the accounts that the server did not rent; each id has its provider before it."""
        return self._call(api.STRANGERS)

    def shapes(self) -> list[api.ListedShape]:
        """Every shape, with the stock that was found when it was last tried."""
        return self._call(api.SHAPES)

    def set_shapes(self, shapes: Sequence[Shape], *, replacing: str | None = None) -> list[api.ListedShape]:
        """Store shapes, all or none; return all. `replacing` a provider removes all its other shapes."""
        given = [api.ShapeBody(**common(api.ShapeBody, each)) for each in shapes]
        return self._call(api.SET_SHAPES, body=api.ShapesBody(shapes=given, replacing=replacing))

    def refresh_shapes(self) -> list[api.ListedShape]:
        """Ask the providers for the present rates; return all shapes."""
        return self._call(api.REFRESH_SHAPES)

    def remove_shape(self, shape_id: str) -> Shape:
        """Remove a shape; return its last record."""
        return self._call(api.REMOVE_SHAPE, shape_id)

    def rentals(self, run: str | None = None, *, since: float = 0.0) -> list[api.Rental]:
        """The rentals of a run (by id or name) or of all: those that are open, or were requested later."""
        return self._call(api.RENTALS, query=api.RentalsQuery(run=run, since=since))

    def staged_runs(self) -> list[RunSummary]:
        """The burst runs that wait for an approval, newest first."""
        return self._call(api.STAGED_RUNS)

    def offers(self, run: str) -> list[Offer]:
        """The shapes that would be tried for a run, in this order, with their costs."""
        return self._call(api.OFFERS, run)

    def approve(self, run: str) -> api.Rental:
        """Approve that machines are rented for a burst run."""
        return self._call(api.APPROVE, run)
