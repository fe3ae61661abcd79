"""The views of the table of runs that users have saved. Applied by `upgrade`, after 0034."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the table, empty."""
    op.create_table(
        "saved_view",
        sa.Column("user_name", _BYTEWISE, nullable=False),
        sa.Column("name", _BYTEWISE, nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("user_name", "name", name="pk_saved_view"),
    )
