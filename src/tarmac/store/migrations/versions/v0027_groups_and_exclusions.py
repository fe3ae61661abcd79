"""Usage by array and experiment; runs that keep away from nodes. Applied by `upgrade`, after 0026."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BEFORE = "hour_at, cluster, pool, user_name, project"


def upgrade() -> None:
    """Make `usage` anew, with what is in it: its key grows, which databases do in place each in its way."""
    op.add_column("run", sa.Column("excluded_nodes", sa.Text))
    op.execute(f"CREATE TABLE usage_before AS SELECT {_BEFORE}, slot_s FROM usage")
    op.drop_table("usage")
    op.create_table(
        "usage",
        sa.Column("hour_at", sa.Double, nullable=False),
        sa.Column("cluster", _BYTEWISE, nullable=False),
        sa.Column("pool", _BYTEWISE, nullable=False),
        sa.Column("user_name", _BYTEWISE, nullable=False),
        sa.Column("project", _BYTEWISE, nullable=False),
        sa.Column("group_id", _BYTEWISE, nullable=False),
        sa.Column("slot_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint(
            "hour_at", "cluster", "pool", "user_name", "project", "group_id", name="pk_usage"
        ),
    )
    op.execute(
        f"INSERT INTO usage ({_BEFORE}, group_id, slot_s) SELECT {_BEFORE}, '', slot_s FROM usage_before"
    )
    op.drop_table("usage_before")
