"""What its engine gave a cluster stands apart from its description. Applied by `upgrade`, after 0011."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """The first address of a cluster, among what it was assigned."""
    connection = op.get_bind()
    for name, body in connection.execute(sa.text("SELECT name, body FROM cluster")).fetchall():
        described = json.loads(body)
        if "first_address" in described:
            described["assigned"] = {"first_address": described.pop("first_address")}
            change = sa.text("UPDATE cluster SET body = :body WHERE name = :name")
            connection.execute(change, {"name": name, "body": json.dumps(described, separators=(",", ":"))})
