"""When a run that failed may start again. Applied by `upgrade`, after 0008."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column."""
    op.add_column("run", sa.Column("retry", sa.Text))
