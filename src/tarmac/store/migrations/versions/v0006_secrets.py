"""Secrets. Applied by `upgrade`, after 0005."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "secret",
        sa.Column("scope", BYTEWISE, nullable=False),
        sa.Column("name", BYTEWISE, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("sealed", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("retired_at", sa.Double),
        sa.PrimaryKeyConstraint("name", "scope", "number", name="pk_secret"),
    )
