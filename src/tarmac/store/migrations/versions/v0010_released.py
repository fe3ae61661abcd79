"""Replicas whose slots are free before their attempt ends. Applied by `upgrade`, after 0009."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

RUN_STATES = (
    "'ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping'"
)
RUN_EVENTS = (
    "'accepted', 'attempt_paused', 'faulted', 'finished', 'pause_asked', 'placed', 'preempt_asked', "
    "'released', 'reordered', 'resume_asked', 'retried', 'staged', 'started', 'stop_asked', 'vacated'"
)

BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column, and allow the event. SQLite copies the table of events for it, said here in full."""
    op.add_column("attempt", sa.Column("released", sa.Text))
    event = sa.Table(
        "event",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("run_id", BYTEWISE, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_event"),
        sa.UniqueConstraint("run_id", "seq", name="uq_event_run_id_seq"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_event_run_id", ondelete="CASCADE"),
        sa.CheckConstraint("event IN ('accepted')", name="ck_event_event"),  # what stood here is replaced
        sa.CheckConstraint(f"state IN ({RUN_STATES})", name="ck_event_state"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("event", copy_from=event) as batch:
        batch.drop_constraint("ck_event_event", type_="check")
        batch.create_check_constraint("ck_event_event", f"event IN ({RUN_EVENTS})")
