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
from tarmac.server.http.routing import Call, serve
from tarmac.server.service import Handlers

MOST_STAGED = 1_000
"""The most runs in the list of those that wait for an approval."""


class BurstHandlers(Handlers):
    """The routes about rented machines."""

    @serve(api.PROVIDERS)
    def providers(self, call: Call) -> list[ProviderRecord]:
        """Return the providers, with their settings and the names of their secrets."""
        return self.plane.burst.providers(call.actor)

    @serve(api.ADD_PROVIDER)
    def add_provider(self, call: Call[Query, api.ProviderBody]) -> ProviderRecord:
        """Add a provider, once it has answered. May take long. 409 for a name that is taken."""
        return self.plane.burst.add_provider(call.actor, call.body)

    @serve(api.REMOVE_PROVIDER)
    def remove_provider(self, call: Call) -> ProviderRecord:
        """Remove a provider and its shapes, and return its record. 409 while machines of it exist."""
        return self.plane.burst.remove_provider(call.actor, call.reference)

    @serve(api.CHECK_PROVIDER)
    def check_provider(self, call: Call) -> list[Finding]:
        """Check everything that a provider needs before a machine is rented. May take long."""
        return list(self.plane.burst.examine(call.actor, call.reference))

    @serve(api.STRANGERS)
    def strangers(self, call: Call) -> list[RentedThing]:
        """Return the machines, disks and addresses in the accounts that this server did not rent.

        As they were last seen there; each id has the name of its provider before it.
        """
        return self.plane.burst.strangers(call.actor)

    @serve(api.SHAPES)
    def shapes(self, call: Call) -> list[api.ListedShape]:
        """Return the shapes, by id, with the stock that was found when each was last tried."""
        return self.plane.burst.shapes(call.actor)

    @serve(api.SET_SHAPES)
    def set_shapes(self, call: Call[Query, api.ShapesBody]) -> list[api.ListedShape]:
        """Store shapes, all or none, and return all. 422 for a provider that is not known."""
        given = [Shape(**inherited(Shape, each)) for each in call.body.shapes]
        return self.plane.burst.put_shapes(call.actor, given, replacing=call.body.replacing)

    @serve(api.REFRESH_SHAPES)
    def refresh_shapes(self, call: Call) -> list[api.ListedShape]:
        """Ask the providers for the present rates of all shapes, and return these. May take long."""
        return self.plane.burst.refresh(call.actor)

    @serve(api.REMOVE_SHAPE)
    def remove_shape(self, call: Call) -> Shape:
        """Remove a shape, and return it. Machines that are rented stay."""
        return self.plane.burst.remove_shape(call.actor, call.reference)

    def _reported(self, rentals: Sequence[Rental]) -> list[api.Rental]:
        runs, now = (
            self.plane.control.store.load_runs([each.run_id for each in rentals]),
            self.service.clock.now(),
        )
        return [
            api.Rental(
                **inherited(Rental, each),
                run_name=runs[each.run_id].name if each.run_id in runs else each.run_id,
                spent=each.cost(now),
            )
            for each in rentals
        ]

    @serve(api.RENTALS)
    def rentals(self, call: Call[api.RentalsQuery]) -> list[api.Rental]:
        """Return the rentals of runs, by time."""
        return self._reported(self.plane.burst.rentals(call.actor, call.query.run, since=call.query.since))

    @serve(api.STAGED_RUNS)
    def staged(self, call: Call) -> list[RunSummary]:
        """Return the burst runs that wait for an approval, the newest first."""
        window = RunWindow(mode=(Mode.BURST,), status=(RunState.QUEUED,), limit=MOST_STAGED)
        _, found = self.plane.tables.window(call.actor, window)
        return [run for run in found if run.staged]

    @serve(api.OFFERS)
    def offers(self, call: Call) -> list[Offer]:
        """Return the shapes that would be tried for a run, in this order, and those that it may not rent."""
        return self.plane.burst.offers_of(call.actor, call.reference)

    @serve(api.APPROVE)
    def approve(self, call: Call) -> api.Rental:
        """Approve that machines are rented for a burst run. Repeating it has no effect."""
        return self._reported([self.plane.burst.approve(call.actor, call.reference)])[0]
