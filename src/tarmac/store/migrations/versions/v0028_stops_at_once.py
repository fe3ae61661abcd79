"""An attempt can be stopped at once. Applied by `upgrade`, after 0027.

The text of the constraint is changed where SQLite keeps it, as in 0015.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

CONSTRAINT = "ck_attempt_leave_request"
REQUESTS = "'pause', 'preempt', 'stop', 'stop_now', 'time_limit'"


def upgrade() -> None:
    """Allow one request more."""
    if op.get_bind().dialect.name == "sqlite":
        _allow_on_sqlite(op.get_bind())
        return
    op.drop_constraint(CONSTRAINT, "attempt", type_="check")
    op.create_check_constraint(CONSTRAINT, "attempt", f"leave_request IN ({REQUESTS})")


def _allow_on_sqlite(connection: sa.Connection) -> None:
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    connection.execute(sa.text("PRAGMA writable_schema = ON"))
    change = (
        "UPDATE sqlite_master SET sql = replace(sql, '''stop'', ''time_limit''', '''stop'', ''stop_now'',"
        " ''time_limit''') WHERE type = 'table' AND name = 'attempt'"
    )
    connection.execute(sa.text(change))
    connection.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))
    connection.execute(sa.text("PRAGMA writable_schema = OFF"))
