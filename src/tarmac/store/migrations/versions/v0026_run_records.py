"""Records that the code of runs keeps by name. Applied by `upgrade`, after 0025."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "run_record",
        sa.Column("run_id", _BYTEWISE, nullable=False),
        sa.Column("kind", _BYTEWISE, nullable=False),
        sa.Column("name", _BYTEWISE, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "kind", "name", name="pk_run_record"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_run_record_run_id", ondelete="CASCADE"),
        sa.CheckConstraint("kind IN ('checkpoint', 'metadata', 'search')", name="ck_run_record_kind"),
    )
    op.create_index("ix_run_record_name", "run_record", ["kind", "name"])
