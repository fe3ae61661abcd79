"""`Actor`: who commands or asks something of the control plane.

Made at the edges (the server's authentication, the simulator), judged by `control.permissions`, and recorded
with every event that the actor caused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OWN_ORGANISATION = ""
"""The organisation of everybody on a server: there is no other yet."""


class ActorRole(StrEnum):
    """What an actor is within the organisation; each role may do all that the ones after it may.

    An admin manages nodes, clusters and everybody's runs, a member their own runs, a viewer reads.
    """

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A user, in an organisation, with roles there."""

    user: str
    organisation: str = OWN_ORGANISATION
    roles: frozenset[ActorRole] = frozenset({ActorRole.MEMBER})


class RunScope(StrEnum):
    """Whose runs a list has: the actor's own, or those of everybody in the organisation."""

    MINE = "mine"
    ALL = "all"
