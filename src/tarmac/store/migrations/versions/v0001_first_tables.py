"""The first tables. Every set of words is written out: a migration does not change with the model."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

RUN_STATES = (
    "'ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping'"
)
RUN_EVENTS = (
    "'accepted', 'attempt_paused', 'faulted', 'finished', 'pause_asked', 'placed', 'preempt_asked', "
    "'resume_asked', 'retried', 'staged', 'started', 'stop_asked', 'vacated'"
)
ATTEMPT_OUTCOMES = "'completed', 'failed', 'lost', 'paused', 'preempted', 'stopped'"

BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Create everything."""
    _create_run()
    _create_parts_of_run()
    _create_attempt()
    _create_event()
    op.create_table(
        "lease",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_lease"),
    )
    op.create_table(
        "node",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("drained", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_node"),
    )


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("id", BYTEWISE, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("dialect", sa.Text, nullable=False),
        sa.Column("priority", sa.BigInteger, nullable=False),
        sa.Column("slots", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("cluster", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("queued_at", sa.Double),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("message", sa.Text),
        sa.Column("cause", sa.Text),
        sa.Column("code_digest", sa.Text),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("faults", sa.Integer, nullable=False),
        sa.Column("preemptions", sa.Integer, nullable=False),
        sa.Column("idempotency_key", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.UniqueConstraint("idempotency_key", "user_name", name="uq_run_idempotency_key_user_name"),
        sa.CheckConstraint(f"state IN ({RUN_STATES})", name="ck_run_state"),
        sa.CheckConstraint("outcome IN ('completed', 'failed', 'stopped')", name="ck_run_outcome"),
    )
    op.create_index("ix_run_state", "run", ["state", "id"])
    op.create_index("ix_run_user", "run", ["user_name", "id"])
    op.create_index("ix_run_project", "run", ["project", "id"])
    op.create_index("ix_run_name", "run", ["name", "id"])
    op.create_index("ix_run_ended_at", "run", ["ended_at"])


def _create_parts_of_run() -> None:
    op.create_table(
        "run_spec",
        sa.Column("run_id", BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_spec"),
        _of_run("run_spec"),
    )
    op.create_table(
        "run_label",
        sa.Column("run_id", BYTEWISE, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "key", name="pk_run_label"),
        _of_run("run_label"),
    )
    op.create_index("ix_run_label_pair", "run_label", ["key", "value", "run_id"])


def _create_attempt() -> None:
    op.create_table(
        "attempt",
        sa.Column("run_id", BYTEWISE, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("allocation", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("master_port", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("asked", sa.Text),
        sa.Column("asked_at", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("cause", sa.Text),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempt"),
        _of_run("attempt"),
        sa.CheckConstraint("state IN ('ended', 'running', 'starting')", name="ck_attempt_state"),
        sa.CheckConstraint("asked IN ('pause', 'preempt', 'stop', 'time_limit')", name="ck_attempt_asked"),
        sa.CheckConstraint(f"outcome IN ({ATTEMPT_OUTCOMES})", name="ck_attempt_outcome"),
    )
    live = sa.text("state <> 'ended'")
    op.create_index(
        "ix_attempt_live", "attempt", ["run_id", "number"], sqlite_where=live, postgresql_where=live
    )


def _create_event() -> None:
    op.create_table(
        "event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), nullable=False),
        sa.Column("run_id", BYTEWISE, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_event"),
        sa.UniqueConstraint("run_id", "seq", name="uq_event_run_id_seq"),
        _of_run("event"),
        sa.CheckConstraint(f"event IN ({RUN_EVENTS})", name="ck_event_event"),
        sa.CheckConstraint(f"state IN ({RUN_STATES})", name="ck_event_state"),
        sqlite_autoincrement=True,
    )


def _of_run(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=f"fk_{table}_run_id", ondelete="CASCADE")
