"""Who caused an event. Applied by `upgrade`, after 0012."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; of what happened before, nobody knows."""
    op.add_column("event", sa.Column("actor", sa.Text))
