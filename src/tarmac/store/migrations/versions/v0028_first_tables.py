"""The oldest schema that is upgraded; earlier ones were never released. Read by Alembic alone.

An empty database does not use it: `upgrade` creates its tables as `schema` declares them.
"""

revision = "0028"
down_revision = None


def upgrade() -> None:
    """Change nothing: a database of this version has these tables."""
