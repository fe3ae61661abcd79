"""What lists of runs in the words of other systems tell of each run. Applied by `upgrade`, after 0003.

Runs that are there already were all written in tarmac's own dialect; of them nothing more is told.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("run", sa.Column("cause_code", sa.Text))
    op.add_column("run", sa.Column("slot_type", sa.Text))
    op.add_column("run", sa.Column("system", sa.Text, nullable=False, server_default=sa.text("'native'")))
    op.add_column("run", sa.Column("image", sa.Text))
    op.add_column("run", sa.Column("max_turns", sa.Integer))
