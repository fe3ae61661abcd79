"""A thin copy of the service, until the real one is there. Used by `service`."""

from collections.abc import Mapping, Sequence

from tarmac.control.lookup import find_run
from tarmac.control.permissions import Action, check
from tarmac.control.state.control_state import ControlState
from tarmac.model.actor import Actor
from tarmac.model.burst.provider import ProviderRecord, RentedThing
from tarmac.model.burst.rentals import Rental
from tarmac.model.burst.shapes import Offer, Shape, Stock
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import InvalidInput, NotFound
from tarmac.model.spec import RunSpec


class BurstService:
    """Commands and questions about rented machines."""

    def __init__(self, control: ControlState) -> None:
        self._control = control
        self._providers: dict[str, ProviderRecord] = {}
        self._shapes: dict[str, Shape] = {}
        self._rentals: dict[str, Rental] = {}

    def providers(self, actor: Actor) -> list[ProviderRecord]:
        """All."""
        check(actor, Action.MANAGE)
        return [*self._providers.values()]

    def add_provider(
        self,
        actor: Actor,
        *,
        name: str,
        kind: str,
        settings: Mapping[str, str],
        credentials: Mapping[str, str],
    ) -> ProviderRecord:
        """Add."""
        check(actor, Action.MANAGE)
        made = ProviderRecord(
            name=name, kind=kind, settings=settings, credentials=credentials, owner="o", added_by=actor.user
        )
        self._providers[name] = made
        return made

    def remove_provider(self, actor: Actor, name: str) -> ProviderRecord:
        """Remove."""
        check(actor, Action.MANAGE)
        if name not in self._providers:
            raise NotFound(f"there is no provider {name!r}")
        return self._providers.pop(name)

    def shapes(self, actor: Actor) -> list[Shape]:
        """All."""
        check(actor, Action.READ)
        return sorted(self._shapes.values(), key=lambda each: each.id)

    def stock(self, actor: Actor) -> list[Stock]:
        """All."""
        check(actor, Action.READ)
        return []

    def put_shapes(
        self, actor: Actor, shapes: Sequence[Shape], *, replacing: str | None = None
    ) -> list[Shape]:
        """Put."""
        check(actor, Action.MANAGE)
        for each in shapes:
            if each.provider not in self._providers:
                raise InvalidInput(f"{each.id}: there is no provider {each.provider!r}")
        kept = {name: each for name, each in self._shapes.items() if each.provider != replacing}
        self._shapes = kept | {each.id: each for each in shapes}
        return [*shapes]

    def remove_shape(self, actor: Actor, shape_id: str) -> Shape:
        """Remove."""
        check(actor, Action.MANAGE)
        if shape_id not in self._shapes:
            raise NotFound(f"there is no shape {shape_id!r}")
        return self._shapes.pop(shape_id)

    def refresh(self, actor: Actor, prices: Sequence[Shape] | None) -> list[Shape]:
        """Ask."""
        check(actor, Action.MANAGE)
        return self.shapes(actor)

    def approve(self, actor: Actor, run_id: str) -> Rental:
        """Approve."""
        run = find_run(self._control.store, actor, run_id)
        run_id = run.id
        check(actor, Action.CONTROL, owner=run.user, project=run.project)
        made = Rental(
            id=f"{run_id}-1",
            run_id=run_id,
            user=run.user,
            project=run.project,
            server="",
            number=1,
            wanted_at=self._control.clock.now(),
            approved=actor.user,
        )
        return self._rentals.setdefault(run_id, made)

    def rentals(self, actor: Actor, run_id: str | None = None, *, since: float = 0.0) -> list[Rental]:
        """All."""
        check(actor, Action.READ)
        return [each for each in self._rentals.values() if run_id in (None, each.run_id)]

    def strangers(self, actor: Actor) -> list[RentedThing]:
        """None."""
        check(actor, Action.MANAGE)
        return []

    def offers(self, actor: Actor, spec: RunSpec) -> list[Offer]:
        """All."""
        check(actor, Action.READ)
        return [
            Offer(shape=each, machines=1, rate=each.rate, cost=None)
            for each in sorted(self._shapes.values(), key=lambda each: each.rate)
        ]

    def offers_of(self, actor: Actor, reference: str) -> list[Offer]:
        """All."""
        return self.offers(actor, find_run(self._control.store, actor, reference).spec)

    def examine(self, actor: Actor, name: str) -> list[Finding]:
        """All."""
        check(actor, Action.MANAGE)
        return [Finding(what=name, ok=True, text="fine")]
