"""The engine's port to a Ray: its nodes, agents on them, and reservations.

Implemented by `bridge`, and by tests without a Ray.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node in Ray: `accelerators` and `cpus` are those it was started with.

    `shared`: others use resources of it. `reserved`: it is reserved for us.
    """

    id: str
    address: str
    hostname: str
    alive: bool = True
    cpus: float = 0.0
    accelerators: float = 0.0
    shared: bool = False
    reserved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a node's agent, and the token (hexadecimal) with which we authenticate."""

    address: str
    port: int
    token: str


class Membership(Protocol):
    """A Ray cluster. Every call has a deadline, and raises Unavailable without an answer by then."""

    def members(self) -> Sequence[Member]:
        """The nodes, including lost ones."""

    def agent(self, member: Member, *, home: str, instead_of: Endpoint | None) -> Endpoint:
        """The agent of a node, started if there is none; `instead_of`: one that does not answer."""

    def reserve(self, member_ids: Collection[str]) -> None:
        """Reserve these nodes for us, all or none. Raises Unavailable while others use one of them."""

    def release(self, member_ids: Collection[str]) -> None:
        """Release these nodes."""

    def about(self) -> Mapping[str, Any]:
        """The current versions of Ray and its Python."""

    def close(self) -> None:
        """Close the connection; agents and reservations stay."""
