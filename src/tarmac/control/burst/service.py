"""The commands and questions about rented machines: providers, shapes, approval, rentals. From any thread.

Made by `control.service.ControlPlane`; the loop of rentals calls `turn`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from tarmac.api.burst_operations import ListedShape
from tarmac.api.placement import Why
from tarmac.control.burst import telling
from tarmac.control.burst.market import Market
from tarmac.control.burst.renter import BurstParts, Renter
from tarmac.control.burst.renting import Renting, requested
from tarmac.control.clusters import Clusters
from tarmac.control.lookup import find_run
from tarmac.control.permissions import Action, check, may_see
from tarmac.control.reports import DryRun
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.actor import Actor
from tarmac.model.burst.provider import ProviderRecord, ProviderTerms, RentedThing, RentRefused, ThingState
from tarmac.model.burst.rentals import Rental
from tarmac.model.burst.shapes import Offer, Shape
from tarmac.model.cluster import Finding
from tarmac.model.codec import inherited, replace
from tarmac.model.errors import InvalidInput, NeverFits, NotFound, Refused, suggestion
from tarmac.model.lifecycle import RunState
from tarmac.model.run import Run


class BurstService:
    """The commands and questions, and the passes of the loop of rentals."""

    def __init__(self, control: ControlState, clusters: Clusters, parts: BurstParts) -> None:
        self._control = control
        self._store = control.store
        self._renter = Renter(control, clusters, parts)
        self._renting = None if parts.rented is None else Renting(self._renter, parts.rented)

    def turn(self, control: ControlState) -> float | None:
        """One pass of the loop of rentals; returns the time of the next one."""
        return None if self._renting is None else self._renting.turn(control)

    # --- providers and shapes

    def providers(self, actor: Actor) -> list[ProviderRecord]:
        """All providers, by name."""
        check(actor, Action.MANAGE)
        return self._store.rentals.providers()

    def add_provider(self, actor: Actor, terms: ProviderTerms) -> ProviderRecord:
        """Add a provider with a new tag, once it has listed its account."""
        check(actor, Action.MANAGE)
        if any(each.name == terms.name for each in self._store.rentals.providers()):
            hint = f"another name, or tarmac providers rm {terms.name}"
            raise Refused(f"there is a provider {terms.name!r} already", hint=hint)
        given, owner = inherited(ProviderTerms, terms), self._control.ids.token()
        record = ProviderRecord(**given, owner=owner, added_by=actor.user)
        self._listed(record)
        self._store.rentals.put_provider(record)
        self._control.event_bus.notify(Wakeup.BURST)
        return record

    def remove_provider(self, actor: Actor, name: str) -> ProviderRecord:
        """Remove a provider and its shapes. Raises Refused while anything with its tag exists."""
        check(actor, Action.MANAGE)
        record = self._renter.provider(name)
        own = [each for each in self._listed(record) if each.owner == record.owner]
        present = ", ".join(each.id for each in own if each.state is not ThingState.GONE)
        if present or not self._store.rentals.remove_provider(name):
            text = f"provider {name} stays while its machines exist: {present or 'a rental is open'}"
            raise Refused(text, hint="tarmac burst ls shows the runs that have them")
        return record

    def shapes(self, actor: Actor) -> list[ListedShape]:
        """All shapes, by id, with the findings of the last try to rent each."""
        check(actor, Action.READ)
        known, stock = self._store.rentals, {each.shape: each for each in self._store.rentals.stock()}
        return [ListedShape(**inherited(Shape, each), stock=stock.get(each.id)) for each in known.shapes()]

    def put_shapes(
        self, actor: Actor, shapes: Sequence[Shape], *, replacing: str | None = None
    ) -> list[ListedShape]:
        """Store shapes in place of those of the same ids; `replacing`: in place of all of that provider."""
        check(actor, Action.MANAGE)
        known = [each.name for each in self._store.rentals.providers()]
        for name in dict.fromkeys([*(each.provider for each in shapes), *([replacing] if replacing else [])]):
            if name not in known:
                names = ", ".join(known) or "none; tarmac providers add"
                hint = suggestion(name, known, f"providers: {names}")
                raise InvalidInput(f"there is no provider {name!r}", hint=hint)
        self._store.rentals.put_shapes(shapes, replacing=replacing)
        self._control.event_bus.notify(Wakeup.BURST)
        return self.shapes(actor)

    def remove_shape(self, actor: Actor, shape_id: str) -> Shape:
        """Remove a shape; machines of it stay rented."""
        check(actor, Action.MANAGE)
        known = {each.id: each for each in self._store.rentals.shapes()}
        if shape_id not in known:
            hint = suggestion(shape_id, known, "tarmac shapes ls lists all shapes")
            raise NotFound(f"there is no shape {shape_id!r}", hint=hint)
        self._store.rentals.remove_shape(shape_id)
        return known[shape_id]

    def refresh(self, actor: Actor) -> list[ListedShape]:
        """Store the present rates, as the providers say."""
        check(actor, Action.MANAGE)
        day = datetime.fromtimestamp(self._control.clock.now(), UTC).date().isoformat()
        changed = []
        for shape in self._store.rentals.shapes():
            rate = self._renter.open(self._renter.provider(shape.provider)).price(shape)
            if rate is not None:
                changed.append(replace(shape, rate=rate, rated_on=day))
        self._store.rentals.put_shapes(changed)
        return self.shapes(actor)

    def examine(self, actor: Actor, name: str) -> Sequence[Finding]:
        """Check everything that a provider needs."""
        check(actor, Action.MANAGE)
        return self._renter.open(self._renter.provider(name)).examine()

    def strangers(self, actor: Actor) -> list[RentedThing]:
        """The things of others in the accounts, as of the last look, with their provider before their id."""
        check(actor, Action.MANAGE)
        found = {} if self._renting is None else dict(self._renting.reaping.strangers)
        return [
            replace(each, id=f"{name}/{each.id}") for name, things in sorted(found.items()) for each in things
        ]

    # --- runs

    def approve(self, actor: Actor, run_id: str) -> Rental:
        """Let a burst run rent machines; approving it again changes nothing."""
        run = find_run(self._store, actor, run_id)
        check(actor, Action.CONTROL, owner=run.user, project=run.project)
        if self._renter.parts.rules.admins_approve:
            check(actor, Action.MANAGE)
        if not run.spec.is_burst:
            hint = "runs of mode burst do; tarmac why says what it waits for"
            raise Refused(f"{run.name} ({run.id}) needs no approval: its mode is {run.spec.mode}", hint=hint)
        if run.state is RunState.ENDED:
            raise Refused(
                f"{run.name} ({run.id}) has ended", hint=f"tarmac run --clone {run.id} begins another"
            )
        past = self._store.rentals.rentals(run_ids=[run.id])
        if not past:
            now, token = self._control.clock.now(), self._control.ids.token()
            self._renter.change(None, requested(run, [], token, now, approved=actor.user))
            self._control.event_bus.notify(Wakeup.BURST)
            past = self._store.rentals.rentals(run_ids=[run.id])
        return past[-1]

    def is_staged(self, run: Run) -> bool:
        """Whether machines need an approval to be rented for a run."""
        waits = run.spec.is_burst and run.state is not RunState.ENDED
        return waits and not self._store.rentals.rentals(run_ids=[run.id])

    def rentals(self, actor: Actor, run_id: str | None = None, *, since: float = 0.0) -> list[Rental]:
        """The rentals that the actor may see: of a run, or requested at `since` or later or still open."""
        check(actor, Action.READ)
        ids = None if run_id is None else [find_run(self._store, actor, run_id).id]
        return [
            each for each in self._store.rentals.rentals(run_ids=ids, since=since) if may_see(actor, each)
        ]

    def offers_of(self, actor: Actor, reference: str) -> list[Offer]:
        """The shapes that would be tried for a run, in their order."""
        check(actor, Action.READ)
        run = find_run(self._store, actor, reference)
        return self._market(run).offers(run)

    def refuse(self, run: Run, own: NeverFits | None = None) -> None:
        """Refuse a new run that can never have machines here. `own` is why the nodes here do not hold it."""
        if own is not None and not run.spec.may_rent:
            raise own
        try:
            self._market(run).refuse(run)
        except Refused as other:
            if own is None:
                raise
            text = f"{own.message}; and it can rent nothing: {other.message}"
            raise NeverFits(text, hint=other.hint, reasons=own.reasons) from None

    def why(self, run: Run) -> telling.Explanation | None:
        """The reason why a queued run waits if that is rented machines."""
        if not run.spec.may_rent:
            return None
        market = self._market(run)
        troubles = {} if self._renting is None else self._renting.reaping.troubles
        return telling.explanation(run, market, troubles)

    def explained(self, run: Run, found: Why) -> Why:
        """The explanation of a queued batch run with when it rents, and the shapes that would be tried."""
        if run.state is not RunState.QUEUED or run.awaits or run.spec.is_burst or not run.spec.may_rent:
            return found
        market = self._market(run)
        if any(each.open for each in market.of_run(run.id)):
            return found
        offers = tuple(market.offers(run))
        rule = telling.rule(run, offers, market.now)
        return replace(found, offers=offers, unblocked_by=f"{found.unblocked_by} {rule}".strip())

    def priced(self, found: DryRun) -> DryRun:
        """The dry run of a run that may rent, with the shapes that would be tried; refuses it as `refuse`."""
        run = found.run
        if run.spec.is_burst:
            self.refuse(run)
        return replace(found, offers=tuple(self._market(run).offers(run))) if run.spec.may_rent else found

    def _market(self, run: Run) -> Market:
        return Market(self._control, self._renter.parts.rules, [run])

    def _listed(self, record: ProviderRecord) -> Sequence[RentedThing]:
        try:
            return self._renter.open(record).list()
        except RentRefused as error:
            hint = "the credentials name the secrets with its keys"
            raise InvalidInput(f"provider {record.name}: {error.message}", hint=hint) from None
