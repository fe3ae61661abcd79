"""The home that serves a cluster: the record that keeps two servers of one database from doing the same work.

Read and written through `ports.Store`; `control/serving.py` decides which home may take a cluster.
"""

from __future__ import annotations

from msgspec import Struct


class HomeIdentity(Struct, frozen=True, kw_only=True):
    """A tarmac home and the machine that its server runs on.

    `id` is stored in the home and moves with it; `machine` identifies the machine; `hostname` and `path` are
    for people.
    """

    id: str
    machine: str
    hostname: str
    path: str

    def __str__(self) -> str:
        return f"the home {self.path} on {self.hostname}"


class Lease(Struct, frozen=True, kw_only=True):
    """The right of one server to act for a cluster: to place, start and end the runs submitted to it.

    It does not expire: another home has to take it on purpose. `token` grows whenever a server takes it, also
    one of the same home: requests of an older server are refused.
    """

    cluster: str
    home: str
    token: int


class ServerRecord(Struct, frozen=True, kw_only=True):
    """The home that serves a cluster, and the last sign of life of its server."""

    cluster: str
    home: HomeIdentity
    token: int
    seen_at: float
