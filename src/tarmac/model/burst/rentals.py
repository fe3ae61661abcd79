"""Rentals: the durable record of machines for one run, from the wish to the last machine's end.

A row is written before each call that rents (`CREATING`), and stays open until the provider reports that
nothing of it exists. `control/burst` changes rows; `store` keeps them.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from tarmac.model.actor import Lease
from tarmac.model.burst.provider import ProviderRecord, RentedThing, ThingKind
from tarmac.model.burst.shapes import Shape, Stock
from tarmac.model.cluster import BURST_PREFIX, Cluster, MachineProgress


class RentalState(StrEnum):
    """The state of a rental; the arrows are in `NEXT`."""

    REQUESTED = "requested"
    CREATING = "creating"
    STARTING = "starting"
    READY = "ready"
    RELEASING = "releasing"
    ENDED = "ended"


NEXT: Mapping[RentalState, frozenset[RentalState]] = {
    RentalState.REQUESTED: frozenset({RentalState.CREATING, RentalState.ENDED}),
    RentalState.CREATING: frozenset({RentalState.STARTING, RentalState.RELEASING, RentalState.ENDED}),
    RentalState.STARTING: frozenset({RentalState.READY, RentalState.RELEASING}),
    RentalState.READY: frozenset({RentalState.RELEASING}),
    RentalState.RELEASING: frozenset({RentalState.ENDED}),
    RentalState.ENDED: frozenset({RentalState.RELEASING}),  # machines of it have appeared late
}


class RentalEnd(StrEnum):
    """Why a rental ends. UNUSED: the run is paused, or runs elsewhere. UNAVAILABLE: nothing was done."""

    RUN_ENDED = "run_ended"
    UNUSED = "unused"
    UNAVAILABLE = "unavailable"
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    UNKNOWN_SHAPE = "unknown_shape"
    DENIED = "denied"
    INVALID = "invalid"
    ANSWER_LOST = "answer_lost"
    HALF_GANG = "half_gang"
    START_FAILED = "start_failed"
    RECLAIMED = "reclaimed"
    OVER_CAP = "over_cap"
    CREDITS_EXHAUSTED = "credits_exhausted"
    BUDGET = "budget"
    TIME_LIMIT = "time_limit"


class Rental(Struct, frozen=True, kw_only=True):
    """One try to rent machines for a run, number `number` of its tries.

    `id` is the request id that the provider gets. `approved` names who approved the run ("": no approval was
    needed). `created_at` is when its intent became durable: machines may exist from then on. `lists` counts
    the successive answers without any machine, while these decide, and `listed_at` is the time of the last.
    `things` are those known to exist or to have existed. `end_at` is when its budget or time limit is used
    up. `end` says why it was or will be given back, or why nothing was rented, with the provider's words in
    `text`. `charges` is the number of periods that were charged. `seq` counts its changes, and guards them.
    """

    id: str
    run_id: str
    user: str
    project: str
    server: str
    number: int
    seq: int = 1
    state: RentalState = RentalState.REQUESTED
    requested_at: float
    approved: str = ""
    shape: Shape | None = None
    machines: int = 0
    created_at: float | None = None
    lists: int = 0
    listed_at: float | None = None
    things: tuple[RentedThing, ...] = ()
    ready_at: float | None = None
    end_at: float | None = None
    warned_at: float | None = None
    releasing_at: float | None = None
    deletes: int = 0
    deleted_at: float | None = None
    ended_at: float | None = None
    end: RentalEnd | None = None
    text: str = ""
    charges: int = 0

    @property
    def cluster(self) -> str:
        """The name of the cluster that its machines become."""
        return BURST_PREFIX + self.run_id

    @property
    def rate(self) -> float:
        """The money for all of its machines in one hour."""
        return 0.0 if self.shape is None else self.shape.rate * self.machines

    def hours(self, until: float, since: float = 0.0) -> float:
        """The hours of all its machines in a range of time, each from its creation until it was gone."""
        begin = max(since, self.created_at or 0.0)
        ends = (
            (each.since or 0.0, until if each.gone_at is None else each.gone_at)
            for each in self.machines_known
        )
        return sum(max(0.0, min(until, end) - max(begin, at)) for at, end in ends) / 3600.0

    def cost(self, until: float, since: float = 0.0) -> float:
        """The money for its machines in a range of time."""
        return 0.0 if self.shape is None else self.shape.rate * self.hours(until, since)

    @property
    def machines_known(self) -> list[RentedThing]:
        """The machines among its things."""
        return [each for each in self.things if each.kind is ThingKind.MACHINE]

    @property
    def open(self) -> bool:
        """Whether something of it may exist, or will be rented."""
        return self.state is not RentalState.ENDED


class RentalStep(Struct, frozen=True, kw_only=True):
    """A change of a rental: applied only while its stored `seq` is that of `before` (None: a new row)."""

    before: Rental | None
    after: Rental


class RentedClusters(Protocol):
    """Makes clusters of rented machines. Calls may take minutes, and be repeated after any crash."""

    def script(self, rental: Rental, *, limit_s: float | None) -> str:
        """The script for the first start of its machines, the same each time; the keys that it admits are
        stored durably before.

        A machine shuts down after `limit_s`, and when the server has been silent for an hour.
        """

    def start(self, rental: Rental, progress: MachineProgress) -> Cluster:
        """Start the cluster on its machines and return it. Raises Unavailable while a machine cannot be
        reached yet, and InvalidInput if they can never be a cluster.
        """

    def keep_alive(self, rental: Rental) -> None:
        """Tell each machine that the server still wants it. Raises Unavailable."""

    def keep_files(self, rental: Rental) -> None:
        """Copy reports and logs of its run here, before its cluster is removed and its machines are deleted.

        Raises Unavailable after it has copied what it can.
        """

    def forget(self, rental: Rental) -> None:
        """Remove everything on this machine that served the rental."""


class Rentals(Protocol):
    """The durable record of providers, shapes and rentals. Errors are those of `ports.Store`."""

    def providers(self) -> list[ProviderRecord]:
        """All providers, by name."""

    def put_provider(self, record: ProviderRecord) -> None:
        """Store a provider in place of the one of its name."""

    def remove_provider(self, name: str) -> bool:
        """Remove a provider and its shapes; False while an open rental has one of these."""

    def shapes(self) -> list[Shape]:
        """All shapes, by id."""

    def put_shapes(self, shapes: Sequence[Shape], *, replacing: str | None = None) -> None:
        """Store shapes in place of those of the same ids, all in one transaction; with `replacing`, all other
        shapes of that provider are removed.
        """

    def remove_shape(self, shape_id: str) -> bool:
        """Remove a shape; False if there was none."""

    def stock(self) -> list[Stock]:
        """The newest findings, by shape."""

    def put_stock(self, stock: Stock) -> None:
        """Store the newest finding about a shape."""

    def apply(self, steps: Sequence[RentalStep], *, lease: Lease | None = None) -> list[bool]:
        """Apply steps in one transaction; True for each that was applied. A step whose guard does not hold is
        skipped. With a lease, LeaseLost is raised as by `ports.Store.apply`.
        """

    def open_rentals(self) -> list[Rental]:
        """Every rental that has not ended, by id."""

    def rentals(self, *, run_ids: Sequence[str] | None = None, since: float = 0.0) -> list[Rental]:
        """The rentals of these runs (None: of all), requested at `since` or later or still open, by time."""
