"""Experiments and their trials. Applied by `upgrade`, after 0020."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Make the tables."""
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "experiment",
        sa.Column("id", bytewise, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("server", bytewise, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("search_state", sa.Text),
        sa.CheckConstraint("state IN ('active', 'ended', 'paused', 'stopping')", name="ck_experiment_state"),
        sa.UniqueConstraint("idempotency_key", "user_name", name="uq_experiment_idempotency_key_user_name"),
        sa.PrimaryKeyConstraint("id", name="pk_experiment"),
    )
    op.create_index("ix_experiment_state", "experiment", ["state", "id"])
    op.create_index("ix_experiment_name", "experiment", ["name", "id"])
    op.create_table(
        "trial",
        sa.Column("experiment_id", bytewise, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("run_id", bytewise, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name="fk_trial_experiment_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "number", name="pk_trial"),
    )
    op.create_index("ix_trial_run", "trial", ["run_id"])
