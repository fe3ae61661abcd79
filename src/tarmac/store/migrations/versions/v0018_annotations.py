"""Runs have notes, and labels that change. Applied by `upgrade`, after 0017."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Make the table."""
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "annotation",
        sa.Column("id", serial, sa.Identity(), nullable=False),
        sa.Column("run_id", bytewise, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.CheckConstraint("kind IN ('label', 'note')", name="ck_annotation_kind"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_annotation_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_annotation"),
    )
    op.create_index("ix_annotation_run", "annotation", ["run_id", "id"])
