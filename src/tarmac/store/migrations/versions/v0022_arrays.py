"""Runs may be members of an array. Applied by `upgrade`, after 0021."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the columns, and an index of members alone."""
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.add_column("run", sa.Column("array_id", bytewise))
    op.add_column("run", sa.Column("array_index", sa.BigInteger))
    op.execute("CREATE INDEX ix_run_array ON run (array_id, array_index) WHERE array_id IS NOT NULL")
