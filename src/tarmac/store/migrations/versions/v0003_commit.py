"""The commit that a run's code was fetched from. Applied by `upgrade`, after 0002."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("run", sa.Column("code_commit", sa.Text))
