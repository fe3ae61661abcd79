"""Which home serves which cluster, in place of leases that lapse. Applied by `upgrade`, after 0007.

What is there already was submitted to a server whose own cluster is called `local`: the first home that
serves a cluster of that name has it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table and the columns; leases go."""
    op.drop_table("lease")
    op.create_table(
        "server",
        sa.Column("cluster", BYTEWISE, nullable=False),
        sa.Column("home", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("hostname", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_server"),
    )
    op.add_column("run", sa.Column("server", BYTEWISE, nullable=False, server_default=sa.text("'local'")))
    op.add_column("attempt", sa.Column("home", sa.Text))
