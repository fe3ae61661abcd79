"""`BurstLab`: a simulated tarmac that rents machines of fake accounts, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from actors import ADA
from fake_provider import Books, Entry, FakeProvider, Knobs
from rented_clusters import FakeKind, FakeRented, limit_of
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.api.account_operations import GrantBody
from tarmac.control.burst.market import BurstRules
from tarmac.control.burst.renter import BurstParts
from tarmac.control.service import ControlPlane, Submission
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.actor import Actor
from tarmac.model.burst.provider import ProviderTerms, RentedThing
from tarmac.model.burst.rentals import Rental, RentalState
from tarmac.model.burst.shapes import BurstRequest, Shape
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.people.limits import EntryKind
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.node.attempt.document import Launch

GPU = "A100"
DAY_S = 86_400.0


def shape(name: str, rate: float, *, provider: str = "aws", slots: int = 4, spot: bool = False) -> Shape:
    """A shape, whose machine has the same name."""
    return Shape(
        id=name,
        provider=provider,
        region="north",
        machine=name,
        slots=slots,
        slot_type=GPU,
        spot=spot,
        rate=rate,
    )


SHAPES = (shape("cheap", 1.0), shape("middle", 2.0), shape("dear", 4.0))


class WatchedProvider(FakeProvider):
    """An account; `looks` are the lists that were answered: when they were asked for, and when answered."""

    def __init__(self, now: Callable[[], float], **parts: Any) -> None:
        super().__init__(now, **parts)
        self.looks: list[tuple[float, float]] = []

    def list(self) -> Sequence[RentedThing]:
        asked_at, found = self.now(), self.listed()
        self.looks.append((asked_at, self.now()))
        return found

    def listed(self) -> Sequence[RentedThing]:
        """The list itself."""
        return super().list()


class BurstLab:
    """A server with one CPU node of its own, and providers by name."""

    def __init__(
        self,
        *,
        behaviour: Callable[[Launch], Behaviour] = lambda _launch: Behaviour(duration_s=1800.0),
        knobs: Knobs | None = None,
        rules: BurstRules | None = None,
        shapes: tuple[Shape, ...] = SHAPES,
        books: Books | None = None,
        clock: VirtualClock | None = None,
        ids: str = "",
        account: Callable[..., WatchedProvider] = WatchedProvider,
    ) -> None:
        """A lab with another one's `clock` and `books` uses the same account, by its own `ids`."""
        names = sorted({each.provider for each in shapes})
        self.accounts = {
            name: account(self.now, books=books, knobs=knobs, limit_of=limit_of) for name in names
        }
        self.rented = FakeRented(self.accounts)
        parts = BurstParts(
            kinds={"fake": FakeKind(self.accounts)}, rented=self.rented, rules=rules or BurstRules()
        )
        self.simulation = Simulation(
            behaviour=behaviour, cluster=nodes(1, 2), burst=parts, ids=ids, clock=clock
        )
        for name in names:
            self.plane.burst.add_provider(ADA, ProviderTerms(name=name, kind="fake"))
        self.plane.burst.put_shapes(ADA, shapes)

    def now(self) -> float:
        return self.simulation.clock.now()

    @property
    def plane(self) -> ControlPlane:
        """The present life of the server."""
        return self.simulation.server.plane

    @property
    def aws(self) -> WatchedProvider:
        return self.accounts["aws"]

    def submit(
        self,
        actor: Actor = ADA,
        *,
        slots: int = 8,
        approve: bool = True,
        key: str | None = None,
        **wanted: object,
    ) -> Run:
        """Submit a burst run for so many GPUs, and approve it."""
        request = wanted.pop("burst", BurstRequest())
        asked = spec(
            replicas=slots // 4, each=4, slot_type=GPU, **{"mode": Mode.BURST, "burst": request, **wanted}
        )
        submission = Submission(spec=asked, actor=actor, idempotency_key=key)
        run = self.plane.submit([submission])[0].run
        if approve:
            self.plane.burst.approve(actor, run.id)
        return run

    def grant(self, credits: float, account: str = "user:ada") -> None:
        body = GrantBody(credits=credits, key=f"{account}{self.now()}", account=account)
        self.plane.limits.grant(ADA, body)

    def turn(self) -> None:
        """One pass of everything."""
        self.rented.lose(self.simulation.engine)
        self.simulation.turn_all()

    def go_on(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now() + seconds
        while self.now() < until:
            self.turn()
            upcoming = self.simulation.upcoming()
            at = self.now() + 60.0 if upcoming is None else max(upcoming, self.now() + 1.0)
            self.simulation.clock.advance_to(max(self.now(), min(until, at)))
        self.turn()

    def go_until(self, done: Callable[[], bool], *, within_s: float = 7200.0) -> None:
        """Let time pass until something is so."""
        until = self.now() + within_s
        while not done():
            assert self.now() < until, f"it never comes about: {self.rentals()}"
            self.go_on(1.0)
            if not done() and (upcoming := self.simulation.upcoming()) is not None:
                self.simulation.clock.advance_to(max(self.now(), min(upcoming, until)))

    def run(self, run: Run) -> Run:
        found = self.simulation.store.run(run.id)
        assert found is not None
        return found

    def ready(self, run: Run) -> Rental:
        """Let a run train on its rented machines; returns its rental."""
        self.go_until(lambda: self.run(run).state is RunState.RUNNING)
        rental = self.rentals(run)[-1]
        assert rental.state is RentalState.READY
        return rental

    def complete(self, run: Run) -> None:
        """Let a run train to its end."""
        self.go_until(lambda: self.run(run).state is RunState.ENDED)
        assert self.run(run).outcome is Outcome.COMPLETED

    def rentals(self, run: Run | None = None) -> list[Rental]:
        ids = None if run is None else [run.id]
        return self.simulation.store.rentals.rentals(run_ids=ids)

    def states(self, run: Run) -> list[RentalState]:
        return [each.state for each in self.rentals(run)]

    def charged(self, account: str = "user:ada", *, rental: str = "") -> float:
        """The credits charged to an account: in all, or for one rental."""
        found = self.simulation.store.limits.entries(account, before=10**9, limit=10**6)
        begin = f"rental/{rental}/" if rental else ""
        return -sum(e.amount for e in found if e.kind is EntryKind.CHARGE and e.key.startswith(begin))

    def machines(self, rental: Rental) -> list[Entry]:
        """The machines of a rental in the books."""
        return self.aws.books.of(request=rental.id)

    def check_over(self) -> None:
        """Everything is given back in time, and charged as the rentals say."""
        self.go_until(lambda: not any(each.open for each in self.rentals()), within_s=2 * DAY_S)
        assert self.aws.books.rented_twice() == []
        assert [each for each in self.aws.books.left() if each.run is not None] == []
        assert self.simulation.store.clusters() == []
        cost = sum(each.cost(self.now()) for each in self.rentals())
        assert abs(self.charged() - cost) < 1e-6, f"charged {self.charged()}, and it cost {cost}"
