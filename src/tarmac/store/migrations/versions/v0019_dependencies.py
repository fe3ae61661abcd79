"""Runs wait for other runs. Applied by `upgrade`, after 0018.

The text of the constraint is changed where SQLite keeps it, as in 0015.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

CONSTRAINT = "ck_event_event"
EVENTS = (
    "'accepted', 'attempt_paused', 'dependency_met', 'faulted', 'finished', 'granted', 'pause_requested', "
    "'placed', 'preempt_requested', 'released', 'reordered', 'resume_requested', 'retried', "
    "'session_opened', 'staged', 'started', 'stop_requested', 'submitted', 'vacated'"
)


def upgrade() -> None:
    """Add the column, and allow one event more."""
    op.add_column("run", sa.Column("dependencies", sa.Text))
    if op.get_bind().dialect.name == "sqlite":
        _allow_on_sqlite(op.get_bind())
        return
    op.drop_constraint(CONSTRAINT, "event", type_="check")
    op.create_check_constraint(CONSTRAINT, "event", f"event IN ({EVENTS})")


def _allow_on_sqlite(connection: sa.Connection) -> None:
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    connection.execute(sa.text("PRAGMA writable_schema = ON"))
    change = (
        "UPDATE sqlite_master SET sql = "
        "replace(sql, '''attempt_paused'', ', '''attempt_paused'', ''dependency_met'', ')"
        " WHERE type = 'table' AND name = 'event'"
    )
    connection.execute(sa.text(change))
    connection.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))
    connection.execute(sa.text("PRAGMA writable_schema = OFF"))
