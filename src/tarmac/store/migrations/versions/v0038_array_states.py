"""Indexes that count the members of an array, and skip them. Applied by `upgrade`, after 0037."""

from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    """Build both, by the runs as they are."""
    op.drop_index("ix_run_state", "run")
    op.create_index("ix_run_state", "run", ["state", "id", "array_id"])
    op.execute("CREATE INDEX ix_run_members ON run (array_id, state, outcome) WHERE array_id IS NOT NULL")
