"""Usage of removed runs. Applied by `upgrade`, after 0028."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table; earlier removed runs are lost."""
    op.create_table(
        "usage_span",
        sa.Column("run_id", _BYTEWISE, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("ended_at", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", name="pk_usage_span"),
    )
    op.create_index("ix_usage_span_ended_at", "usage_span", ["ended_at"])
