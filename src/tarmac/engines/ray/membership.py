"""What the engine asks of a Ray: which nodes it has, agents on them, and to hold them for us.

Implemented by `bridge`, and by tests without a Ray.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node as Ray knows it: `accelerators` and `cpus` are what it was started with.

    `shared`: others hold something of it. `reserved`: it is reserved for us.
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
    """Where the agent of a node listens, and the token (hexadecimal) that it knows us by."""

    address: str
    port: int
    token: str


class Membership(Protocol):
    """A Ray cluster. Every call has a deadline, and raises Unavailable where there is no answer by then."""

    def members(self) -> Sequence[Member]:
        """The nodes, and those that were lost."""
        ...

    def agent(self, member: Member, *, home: str, instead_of: Endpoint | None) -> Endpoint:
        """The agent of a node, started where there is none; `instead_of`: the one that does not answer."""
        ...

    def reserve(self, member_ids: Collection[str]) -> None:
        """Reserve these nodes for us, all or none. Raises Unavailable while others use one of them."""
        ...

    def release(self, member_ids: Collection[str]) -> None:
        """Reserve them no longer."""
        ...

    def about(self) -> Mapping[str, Any]:
        """The versions of Ray and its Python, as they are found now."""
        ...

    def close(self) -> None:
        """Let go of the connection; agents and reservations stay."""
        ...
