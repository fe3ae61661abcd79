"""The oldest schema that is still known; the ones before it were never released. Named by Alembic alone.

An empty database never comes here: `upgrade` creates its tables as `schema` declares them.
"""

from __future__ import annotations

revision = "0014"
down_revision = None


def upgrade() -> None:
    """Nothing: a database of this version has these tables."""
