"""The index of ends in the order of the list, so that the newest live runs are found first. After 0006."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Replace the index."""
    op.drop_index("ix_run_ended_at", "run")
    op.create_index("ix_run_ended_at", "run", ["ended_at", "id"])
