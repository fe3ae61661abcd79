"""Attempts that wait in the queue of their cluster. Applied by `upgrade`, after 0010.

SQLite cannot change a constraint by a statement. It would copy the table of runs, and drop the old one with
all that refers to it; so the text of the constraints is changed where SQLite keeps it, as its manual says for
changes that leave all rows as they are (lang_altertable.html, "Making Other Kinds Of Table Schema Changes").
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

RUN_STATES = (
    "'ended', 'paused', 'pausing', 'pending', 'preempting', 'queued', 'running', 'starting', 'stopping', "
    "'submitted'"
)
RUN_EVENTS = (
    "'accepted', 'attempt_paused', 'faulted', 'finished', 'granted', 'pause_asked', 'placed', "
    "'preempt_asked', 'released', 'reordered', 'resume_asked', 'retried', 'staged', 'started', 'stop_asked', "
    "'submitted', 'vacated'"
)
WORDS = (
    ("run", "state", RUN_STATES),
    ("attempt", "state", "'ended', 'running', 'starting', 'submitted'"),
    ("event", "state", RUN_STATES),
    ("event", "event", RUN_EVENTS),
)


def upgrade() -> None:
    """Add the columns, allow the words, and a port that is not promised."""
    op.add_column("attempt", sa.Column("granted_at", sa.Double))
    op.add_column("attempt", sa.Column("native", sa.Text))
    if op.get_bind().dialect.name == "sqlite":
        _rewrite_on_sqlite(op.get_bind())
        return
    op.alter_column("attempt", "master_port", nullable=True)
    for table, column, words in WORDS:
        name = f"ck_{table}_{column}"
        op.drop_constraint(name, table, type_="check")
        op.create_check_constraint(name, table, f"{column} IN ({words})")


def _rewrite_on_sqlite(connection: sa.Connection) -> None:
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    connection.execute(sa.text("PRAGMA writable_schema = ON"))
    for table in ("run", "attempt", "event"):
        found = sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :table")
        written = connection.execute(found, {"table": table}).scalar_one()
        for name, column, words in WORDS:
            if name == table:
                written = _replaced(
                    rf"(CONSTRAINT \"?ck_{table}_{column}\"? CHECK )\({column} IN \([^)]*\)\)",
                    rf"\1({column} IN ({words}))",
                    written,
                )
        if table == "attempt":
            written = _replaced(r"(\bmaster_port INTEGER) NOT NULL", r"\1", written)
        change = sa.text("UPDATE sqlite_master SET sql = :sql WHERE type = 'table' AND name = :table")
        connection.execute(change, {"sql": written, "table": table})
    connection.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))
    connection.execute(sa.text("PRAGMA writable_schema = OFF"))


def _replaced(pattern: str, replacement: str, written: str) -> str:
    changed, times = re.subn(pattern, replacement, written)
    if times != 1:
        raise RuntimeError(f"the table is not as migration 0010 left it: no {pattern} in {written}")
    return changed
