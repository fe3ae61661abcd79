"""The shapes that a run would rent, as a table. Used by `tarmac why`, `burst` and dry runs."""

from collections.abc import Sequence

from tarmac.cli.views.table import Column, Table, table_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.burst.shapes import Offer

OFFERS: Table[Offer] = (
    Column("SHAPE", lambda offer, _: offer.shape.id),
    Column("REGION", lambda offer, _: offer.shape.region, optional=True),
    Column("MACHINES", lambda offer, _: offer.machines or "", right=True),
    Column("RATE/H", lambda offer, _: _money(offer, offer.rate), right=True),
    Column("UP TO ITS LIMIT", lambda offer, _: _money(offer, offer.cost), right=True),
    Column("RATED ON", lambda offer, _: offer.shape.rated_on, optional=True),
    Column("NOT RENTED", lambda offer, _: offer.refused, flexible=True),
)
TITLE = "shapes that it would rent, in this order"


def offers_text(offers: Sequence[Offer], terminal: Terminal) -> str:
    """The offers in their order, below a title."""
    return "\n".join([terminal.paint(TITLE, "bold"), table_text(OFFERS, offers, terminal)])


def _money(offer: Offer, amount: float | None) -> str:
    return "" if amount is None else f"{amount:,.2f} {offer.shape.currency}"
