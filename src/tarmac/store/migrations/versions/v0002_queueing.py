"""What the scheduler needs kept: places in the queue, shares, turns, evidence, usage; described clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

RUN_STATES = (
    "'ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping'"
)
RUN_EVENTS = (
    "'accepted', 'attempt_paused', 'faulted', 'finished', 'pause_asked', 'placed', 'preempt_asked', "
    "'reordered', 'resume_asked', 'retried', 'staged', 'started', 'stop_asked', 'vacated'"
)
MODES = "'batch', 'burst', 'cycle', 'interruptible'"

BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ZERO = sa.text("0")


def upgrade() -> None:
    """Add columns and tables, and allow the event of a new place in the queue."""
    _add_to_run()
    op.add_column("attempt", sa.Column("allotted_s", sa.Double))
    op.add_column("attempt", sa.Column("evidence", sa.Text))
    _allow_reordered()
    op.create_table(
        "usage",
        sa.Column("hour_at", sa.Double, nullable=False),
        sa.Column("cluster", BYTEWISE, nullable=False),
        sa.Column("pool", BYTEWISE, nullable=False),
        sa.Column("user_name", BYTEWISE, nullable=False),
        sa.Column("project", BYTEWISE, nullable=False),
        sa.Column("slot_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("hour_at", "cluster", "pool", "user_name", "project", name="pk_usage"),
    )
    op.create_table(
        "cluster",
        sa.Column("name", BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_cluster"),
    )


def _add_to_run() -> None:
    op.add_column("run", sa.Column("pool", sa.Text))
    # By hand: both databases add a column with its own constraint, and SQLite needs no new table for it.
    op.execute(
        "ALTER TABLE run ADD COLUMN mode TEXT DEFAULT 'batch' NOT NULL"
        f" CONSTRAINT ck_run_mode CHECK (mode IN ({MODES}))"
    )
    op.add_column("run", sa.Column("turns", sa.Integer, nullable=False, server_default=ZERO))
    op.add_column("run", sa.Column("attained_slot_s", sa.Double, nullable=False, server_default=ZERO))
    op.add_column("run", sa.Column("ran_s", sa.Double, nullable=False, server_default=ZERO))
    op.add_column("run", sa.Column("standing", sa.Text))
    op.add_column("run", sa.Column("share", sa.Text))
    op.add_column("run", sa.Column("verdict", sa.Text))


def _allow_reordered() -> None:
    """SQLite cannot change a constraint in place: it copies the table, which is said here in full."""
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
