"""The guard of transactions that act for a cluster. Called by `sql`, `metrics` and `experiments`."""

from __future__ import annotations

from sqlalchemy import Connection

from tarmac.model.errors import LeaseLost
from tarmac.model.serving import Lease
from tarmac.store import statements as sql


def fence(connection: Connection, lease: Lease | None) -> None:
    """Raise LeaseLost unless the home of the lease serves its cluster under the same token."""
    if lease is None:
        return
    row = connection.execute(sql.LEASE, {"of_cluster": lease.cluster}).one_or_none()
    if row is None or (row.home, row.token) != (lease.home, lease.token):
        raise LeaseLost(f"the cluster {lease.cluster!r} was taken over by another server")
