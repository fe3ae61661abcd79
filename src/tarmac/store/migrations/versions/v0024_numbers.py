"""Numbers of experiments and trials. Applied by `upgrade`, after 0023."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table; a number is given when somebody first asks for it."""
    op.create_table(
        "number",
        sa.Column("kind", _BYTEWISE, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("of_id", _BYTEWISE, nullable=False),
        sa.PrimaryKeyConstraint("kind", "number", name="pk_number"),
        sa.UniqueConstraint("kind", "of_id", name="uq_number_kind_of_id"),
        sa.CheckConstraint("kind IN ('experiment', 'trial')", name="ck_number_kind"),
    )
