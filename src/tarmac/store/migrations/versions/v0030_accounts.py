"""Accounts, organisations, memberships, tokens and the audit log. Applied by `upgrade`, after 0029."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables, empty."""
    op.create_table(
        "account",
        sa.Column("name", _BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("password", sa.Text),
        sa.PrimaryKeyConstraint("name", name="pk_account"),
    )
    op.create_table(
        "organisation",
        sa.Column("name", _BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_organisation"),
    )
    op.create_table(
        "membership",
        sa.Column("project", _BYTEWISE, nullable=False),
        sa.Column("user_name", _BYTEWISE, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("project", "user_name", name="pk_membership"),
    )
    op.create_table(
        "access_token",
        sa.Column("id", _BYTEWISE, nullable=False),
        sa.Column("digest", _BYTEWISE, nullable=False),
        sa.Column("user_name", _BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("last_used_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_access_token"),
        sa.UniqueConstraint("digest", name="uq_access_token_digest"),
    )
    op.create_index("ix_access_token_user", "access_token", ["user_name"])
    op.create_table(
        "audit",
        sa.Column("id", _SERIAL, sa.Identity(), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("user_name", _BYTEWISE, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at", "id"])
