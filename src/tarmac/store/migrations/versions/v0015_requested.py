"""Events say what was requested. Applied by `upgrade`, after 0014.

SQLite cannot change a constraint by a statement. So the text of the constraint is changed where SQLite keeps
it, as its manual says for changes that leave the table as it is (lang_altertable.html, "Making Other Kinds
Of Table Schema Changes").
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

CONSTRAINT = "ck_event_event"
EVENTS = (
    "'accepted', 'attempt_paused', 'faulted', 'finished', 'granted', 'pause_requested', 'placed', "
    "'preempt_requested', 'released', 'reordered', 'resume_requested', 'retried', 'staged', 'started', "
    "'stop_requested', 'submitted', 'vacated'"
)
RENAME = "UPDATE event SET event = replace(event, '_asked', '_requested') WHERE event LIKE '%_asked'"


def upgrade() -> None:
    """Rename four events, in the rows and in the constraint on them."""
    if op.get_bind().dialect.name == "sqlite":
        _rename_on_sqlite(op.get_bind())
        return
    op.drop_constraint(CONSTRAINT, "event", type_="check")
    op.execute(RENAME)
    op.create_check_constraint(CONSTRAINT, "event", f"event IN ({EVENTS})")


def _rename_on_sqlite(connection: sa.Connection) -> None:
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    connection.execute(sa.text("PRAGMA writable_schema = ON"))
    change = (
        "UPDATE sqlite_master SET sql = replace(sql, '_asked''', '_requested''')"
        " WHERE type = 'table' AND name = 'event'"
    )
    connection.execute(sa.text(change))
    connection.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))
    connection.execute(sa.text("PRAGMA writable_schema = OFF"))
    connection.execute(sa.text("PRAGMA ignore_check_constraints = ON"))
    connection.execute(sa.text(RENAME))
    connection.execute(sa.text("PRAGMA ignore_check_constraints = OFF"))
