"""Who drained a node, when and why. Applied by `upgrade`, after 0022."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the column; nothing is known of the nodes that are drained already."""
    op.add_column("node", sa.Column("drain", sa.Text))
