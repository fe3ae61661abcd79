"""Messages about runs, until they are sent and after. Applied by `upgrade`, after 0024."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table; of what happened before nobody is told."""
    op.create_table(
        "notification",
        sa.Column("id", _SERIAL, sa.Identity(), nullable=False),
        sa.Column("run_id", _BYTEWISE, nullable=False),
        sa.Column("key", _BYTEWISE, nullable=False),
        sa.Column("server", _BYTEWISE, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("sent_at", sa.Double),
        sa.Column("error", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_notification"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_notification_run_id", ondelete="CASCADE"),
        sa.UniqueConstraint("run_id", "key", name="uq_notification_run_id_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notification_due", "notification", ["server", "due_at"])
