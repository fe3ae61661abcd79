"""The shapes that a run would rent, as a table. Used by `tarmac burst`, `tarmac why` and dry runs."""

from collections.abc import Sequence

from tarmac.cli.views.table import Column, Table, table_text
from tarmac.cli.views.terminal import Terminal
from tarmac.model.burst.shapes import Offer, Shape


def money(amount: float, shape: Shape | None) -> str:
    """An amount of money in the currency of a shape: "98.32 USD"."""
    return f"{amount:,.2f} {shape.currency}" if shape is not None else ""


def slots_text(shape: Shape) -> str:
    """The GPUs of a machine, or its slots without one: "8 h100", "16 cpu"."""
    return f"{shape.slots} {shape.slot_type}"


OFFERS: Table[Offer] = (
    Column("SHAPE", lambda offer, _: offer.shape.id),
    Column("REGION", lambda offer, _: offer.shape.region),
    Column("EACH", lambda offer, _: slots_text(offer.shape)),
    Column("MACHINES", lambda offer, _: offer.machines or "", right=True),
    Column("PER HOUR", lambda offer, _: money(offer.rate, offer.shape), right=True),
    Column(
        "AT MOST",
        lambda each, _: "no limit" if each.cost is None else money(each.cost, each.shape),
        right=True,
    ),
    Column("REFUSED", lambda offer, _: offer.refused, flexible=True),
)


def offers_text(offers: Sequence[Offer], terminal: Terminal) -> str:
    """The offers in the order in which they are tried, below a title."""
    title = terminal.paint("shapes that it would rent, in this order", "bold")
    return f"{title}\n{table_text(OFFERS, offers, terminal)}"
