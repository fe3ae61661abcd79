"""Metrics that runs report are kept. Applied by `upgrade`, after 0019."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "metric_position",
        _run(),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("node", BYTEWISE, nullable=False),
        sa.Column("read_to", sa.BigInteger, nullable=False),
        sa.Column("latest", sa.Text),
        _of_run("metric_position"),
        sa.PrimaryKeyConstraint("run_id", "attempt", "node", name="pk_metric_position"),
    )
    op.create_table(
        "metric_series",
        _run(),
        *_names(),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("closed", sa.Integer, nullable=False),
        sa.Column("totals", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        _of_run("metric_series"),
        sa.PrimaryKeyConstraint("run_id", "grp", "name", "rank", name="pk_metric_series"),
    )
    op.create_table(
        "metric_chunk",
        _run(),
        *_names(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        _of_run("metric_chunk"),
        sa.PrimaryKeyConstraint("run_id", "grp", "name", "rank", "number", name="pk_metric_chunk"),
    )
    op.create_table(
        "metric_event",
        sa.Column("id", SERIAL, sa.Identity(), nullable=False),
        sa.Column("subscriber", sa.Text, nullable=False),
        _run(),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("step", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
        _of_run("metric_event"),
        sa.PrimaryKeyConstraint("id", name="pk_metric_event"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_metric_event_subscriber", "metric_event", ["subscriber", "id"])
    op.create_index("ix_metric_event_run", "metric_event", ["run_id"])


def _run() -> sa.Column[Any]:
    return sa.Column("run_id", BYTEWISE, nullable=False)


def _names() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("grp", BYTEWISE, nullable=False),
        sa.Column("name", BYTEWISE, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
    )


def _of_run(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=f"fk_{table}_run_id", ondelete="CASCADE")
