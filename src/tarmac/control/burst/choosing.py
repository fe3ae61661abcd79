"""Stand-in."""

from msgspec import Struct

from tarmac.model.burst.shapes import Shape


class Offer(Struct, frozen=True, kw_only=True):
    """Stand-in."""

    shape: Shape
    machines: int
    rate: float
    cost: float | None = None
    refused: str = ""
