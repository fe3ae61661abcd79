"""The announcement of the administrator. Applied by `upgrade`, after 0030."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "announcement",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_announcement"),
    )
