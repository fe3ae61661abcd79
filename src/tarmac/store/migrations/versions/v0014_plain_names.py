"""Columns and a key get the names that the records have now. Applied by `upgrade`, after 0013."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

RENAMED = (
    ("run", "standing", "queue_position"),
    ("run", "verdict", "cycle_report"),
    ("attempt", "asked", "leave_request"),
    ("attempt", "asked_at", "leave_requested_at"),
    ("attempt", "evidence", "milestones"),
)
CONSTRAINT, NEW_CONSTRAINT = "ck_attempt_asked", "ck_attempt_leave_request"


def upgrade() -> None:
    """Rename the columns, the constraint on one of them, and the worker placements within allocations."""
    for table, old, new in RENAMED:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    op.execute("UPDATE attempt SET allocation = replace(allocation, '\"seats\":', '\"placements\":')")
    if op.get_bind().dialect.name == "sqlite":
        _rename_constraint_on_sqlite(op.get_bind())
    else:
        op.execute(f"ALTER TABLE attempt RENAME CONSTRAINT {CONSTRAINT} TO {NEW_CONSTRAINT}")


def _rename_constraint_on_sqlite(connection: sa.Connection) -> None:
    """SQLite has no statement for it: the text of the table is changed, as in 0011."""
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    connection.execute(sa.text("PRAGMA writable_schema = ON"))
    change = (
        "UPDATE sqlite_master SET sql = replace(sql, :old, :new) WHERE type = 'table' AND name = 'attempt'"
    )
    connection.execute(sa.text(change), {"old": CONSTRAINT, "new": NEW_CONSTRAINT})
    connection.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))
    connection.execute(sa.text("PRAGMA writable_schema = OFF"))
