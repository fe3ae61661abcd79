"""The tables of providers, shapes and rentals: for `schema`."""

import sqlalchemy as sa

from tarmac.model.burst.rentals import RentalState
from tarmac.store.columns import Bytewise, by_key, metadata, one_of

provider = by_key("provider", "name")

shape = sa.Table(
    "shape",
    metadata,
    sa.Column("id", Bytewise, primary_key=True),
    sa.Column("provider", Bytewise, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

# What the last try to rent a shape found. A shape that was removed may have a row.
stock = by_key("stock", "shape")

# Tries to rent machines. Rows stay, also those of removed runs: they say what was paid for.
rental = sa.Table(
    "rental",
    metadata,
    sa.Column("id", Bytewise, primary_key=True),
    sa.Column("run_id", Bytewise, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("requested_at", sa.Double, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.UniqueConstraint("run_id", "number"),
    sa.Index("ix_rental_state", "state"),
    sa.Index("ix_rental_requested_at", "requested_at", "id"),
    one_of("state", RentalState),
)
