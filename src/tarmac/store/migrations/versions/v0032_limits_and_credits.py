"""Limits, and the ledger of credits. Applied by `upgrade`, after 0031."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_KINDS = "kind IN ('charge', 'correction', 'grant', 'warning')"


def upgrade() -> None:
    """Create the two tables, both empty."""
    op.create_table(
        "run_limit",
        sa.Column("scope", _BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("scope", name="pk_run_limit"),
    )
    op.create_table(
        "credit_entry",
        sa.Column("id", _SERIAL, sa.Identity(), nullable=False),
        *(sa.Column(name, _BYTEWISE, nullable=False) for name in ("account", "key")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("at", "amount", "slot_s")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "actor", "note")),
        sa.Column("attempt", _BYTEWISE),
        sa.PrimaryKeyConstraint("id", name="pk_credit_entry"),
        sa.UniqueConstraint("account", "key", name="uq_credit_entry_account_key"),
        sa.CheckConstraint(_KINDS, name="ck_credit_entry_kind"),
    )
    op.create_index("ix_credit_entry_account", "credit_entry", ["account", "id"])
    op.create_index("ix_credit_entry_attempt", "credit_entry", ["attempt", "account"])
