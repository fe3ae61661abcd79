"""A rule of pools has another name. Applied by `upgrade`, after 0015."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Rename it in descriptions of clusters, rehearsals included. In texts of users quotes are escaped."""
    for table in ("cluster", "run_spec"):
        op.execute(
            f"UPDATE {table} SET body = replace(body, '\"patience_s\"', '\"backfill_window_s\"')"
            f" WHERE body LIKE '%\"patience_s\"%'"
        )
