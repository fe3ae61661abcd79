"""Providers, their shapes, and rentals of machines. Applied by `upgrade`, after 0036."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

_BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_STATES = "'creating', 'ended', 'ready', 'releasing', 'requested', 'starting'"


def upgrade() -> None:
    """Create the tables, empty."""
    for table, key, *others in (("provider", "name"), ("shape", "id", "provider"), ("stock", "shape")):
        columns = [sa.Column(name, _BYTEWISE, nullable=False) for name in (key, *others)]
        op.create_table(table, *columns, _body(), sa.PrimaryKeyConstraint(key, name=f"pk_{table}"))
    op.create_table(
        "rental",
        *(sa.Column(name, _BYTEWISE, nullable=False) for name in ("id", "run_id")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("number", "seq")),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("requested_at", sa.Double, nullable=False),
        _body(),
        sa.PrimaryKeyConstraint("id", name="pk_rental"),
        sa.UniqueConstraint("run_id", "number", name="uq_rental_run_id_number"),
        sa.CheckConstraint(f"state IN ({_STATES})", name="ck_rental_state"),
    )
    op.create_index("ix_rental_state", "rental", ["state"])
    op.create_index("ix_rental_requested_at", "rental", ["requested_at", "id"])


def _body() -> sa.Column[str]:
    return sa.Column("body", sa.Text, nullable=False)
