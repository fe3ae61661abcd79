"""Reservations of nodes. Applied by `upgrade`, after 0033."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table, empty."""
    op.create_table(
        "reservation",
        sa.Column("name", _BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_reservation"),
    )
