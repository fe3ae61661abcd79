"""The subscriptions of users to all of their own runs. Applied by `upgrade`, after 0032."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Create the table, empty."""
    op.create_table(
        "subscription",
        sa.Column("user_name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("user_name", name="pk_subscription"),
    )
