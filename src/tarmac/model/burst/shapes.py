"""Shapes: the kinds of machines that a provider rents out, and their rates. Used by every layer above."""

from typing import Annotated

from msgspec import Meta, Struct

from tarmac.model.codec import StoredRecord
from tarmac.model.resources import CPU_ONLY

ID_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,99}$"

_Rate = Annotated[float, Meta(ge=0, le=1e6)]


class Shape(Struct, frozen=True, kw_only=True):
    """A kind of machine of a provider, and its rate for one hour.

    `machine` is the provider's own name for it in this `region`. `slots` are its accelerators of `slot_type`;
    a machine without any has the slots that an administrator gives it. `cpus` and `memory_bytes` are those of
    one machine. `rate` is in money (`currency`), `credits` in credits, as many as `rate` if None; both were
    valid on the day `rated_on` (ISO 8601).
    """

    id: Annotated[str, Meta(pattern=ID_PATTERN)]
    provider: str
    region: str
    machine: str
    processor: str = ""
    cpus: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    memory_bytes: Annotated[int, Meta(ge=0, le=10**18)] = 0
    slots: Annotated[int, Meta(ge=1, le=1024)] = 1
    slot_type: str = CPU_ONLY
    spot: bool = False
    rate: _Rate
    currency: str = "USD"
    credits: _Rate | None = None
    rated_on: str = ""

    @property
    def credits_per_hour(self) -> float:
        """The credits for one machine and hour."""
        return self.rate if self.credits is None else self.credits

    @property
    def accelerators(self) -> int:
        """The GPUs of one machine."""
        return 0 if self.slot_type == CPU_ONLY else self.slots


class Stock(Struct, frozen=True, kw_only=True):
    """The result of the last try to rent a shape: `machines` of it, or none and the reason in `text`."""

    shape: str
    tried_at: float
    machines: int = 0
    text: str = ""


class Offer(Struct, frozen=True, kw_only=True):
    """A shape for a run, and the `rate` of the `machines` that the run needs, for one hour.

    `cost` is the money until the time limit of the run (None: it has none). `refused` is the reason why the
    shape is not rented for it, or "".
    """

    shape: Shape
    machines: int
    rate: float
    cost: float | None = None
    refused: str = ""


class BurstRequest(StoredRecord, frozen=True, kw_only=True):
    """A run's own wishes about rented machines.

    `shapes` are ids in the order of preference (empty, or none of them known: all, cheapest first). `budget`
    is the money that the run may cost in all. A run of mode burst starts on rented machines alone. Another
    run rents only if it has waited for `wait_s` in the queue, and only shapes with a rate for all machines
    and one hour of at most `below`.
    """

    shapes: tuple[str, ...] = ()
    budget: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    wait_s: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    below: _Rate | None = None
