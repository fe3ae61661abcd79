"""Rented machines: providers, shapes, rentals, and the approval of burst runs. Joined by `server.app`."""

from collections.abc import Sequence

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.burst.provider import ProviderRecord, RentedThing
from tarmac.model.burst.rentals import Rental
from tarmac.model.burst.shapes import Offer, Shape
from tarmac.model.cluster import Finding
from tarmac.model.codec import inherited
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.summary import RunSummary, RunWindow
from tarmac.server.http.routing import Call, Routes
from tarmac.server.service import Service

MOST_STAGED = 1_000
"""The most runs in the list of those that wait for an approval."""


def add_burst_routes(routes: Routes, service: Service) -> None:
    """Add the routes about rented machines."""
    plane, burst = service.plane, service.plane.burst
    _add_providers(routes, service)
    _add_shapes(routes, service)

    def reported(rentals: Sequence[Rental]) -> list[api.Rental]:
        runs, now = plane.control.store.load_runs([each.run_id for each in rentals]), service.clock.now()
        return [
            api.Rental(
                **inherited(Rental, each),
                run_name=runs[each.run_id].name if each.run_id in runs else each.run_id,
                spent=each.cost(now),
            )
            for each in rentals
        ]

    @routes.serve(api.RENTALS)
    def rentals(call: Call[api.RentalsQuery]) -> list[api.Rental]:
        """Return the rentals of runs, by time."""
        return reported(burst.rentals(call.actor, call.query.run, since=call.query.since))

    @routes.serve(api.STAGED_RUNS)
    def staged(call: Call) -> list[RunSummary]:
        """Return the burst runs that wait for an approval, the newest first."""
        window = RunWindow(mode=(Mode.BURST,), status=(RunState.QUEUED,), limit=MOST_STAGED)
        _, found = plane.tables.window(call.actor, window)
        return [run for run in found if run.staged]

    @routes.serve(api.OFFERS)
    def offers(call: Call) -> list[Offer]:
        """Return the shapes that would be tried for a run, in this order, and those that it may not rent."""
        return burst.offers_of(call.actor, call.reference)

    @routes.serve(api.APPROVE)
    def approve(call: Call) -> api.Rental:
        """Approve that machines are rented for a burst run. Repeating it has no effect."""
        return reported([burst.approve(call.actor, call.reference)])[0]


def _add_providers(routes: Routes, service: Service) -> None:
    burst = service.plane.burst

    @routes.serve(api.PROVIDERS)
    def providers(call: Call) -> list[ProviderRecord]:
        """Return the providers, with their settings and the names of their secrets."""
        return burst.providers(call.actor)

    @routes.serve(api.ADD_PROVIDER)
    def add(call: Call[Query, api.ProviderBody]) -> ProviderRecord:
        """Add a provider, once it has answered. May take long. 409 for a name that is taken."""
        return burst.add_provider(call.actor, call.body)

    @routes.serve(api.REMOVE_PROVIDER)
    def remove(call: Call) -> ProviderRecord:
        """Remove a provider and its shapes, and return its record. 409 while machines of it exist."""
        return burst.remove_provider(call.actor, call.reference)

    @routes.serve(api.CHECK_PROVIDER)
    def check_provider(call: Call) -> list[Finding]:
        """Check everything that a provider needs before a machine is rented. May take long."""
        return list(burst.examine(call.actor, call.reference))

    @routes.serve(api.STRANGERS)
    def strangers(call: Call) -> list[RentedThing]:
        """Return the machines, disks and addresses in the accounts that this server did not rent.

        As they were last seen there; each id has the name of its provider before it.
        """
        return burst.strangers(call.actor)


def _add_shapes(routes: Routes, service: Service) -> None:
    burst = service.plane.burst

    @routes.serve(api.SHAPES)
    def every(call: Call) -> list[api.ListedShape]:
        """Return the shapes, by id, with the stock that was found when each was last tried."""
        return burst.shapes(call.actor)

    @routes.serve(api.SET_SHAPES)
    def put(call: Call[Query, api.ShapesBody]) -> list[api.ListedShape]:
        """Store shapes, all or none, and return all. 422 for a provider that is not known."""
        given = [Shape(**inherited(Shape, each)) for each in call.body.shapes]
        return burst.put_shapes(call.actor, given, replacing=call.body.replacing)

    @routes.serve(api.REFRESH_SHAPES)
    def refresh(call: Call) -> list[api.ListedShape]:
        """Ask the providers for the present rates of all shapes, and return these. May take long."""
        return burst.refresh(call.actor)

    @routes.serve(api.REMOVE_SHAPE)
    def remove(call: Call) -> Shape:
        """Remove a shape, and return it. Machines that are rented stay."""
        return burst.remove_shape(call.actor, call.reference)
