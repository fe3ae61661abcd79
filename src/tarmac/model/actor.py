"""`Actor`: the source of a command or a question to the control plane.

The edges make it (the server's authentication, the simulator), `control.permissions` checks it, and every
event records the actor that caused it.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

OWN_ORGANISATION = ""
"""The organisation of all users of a server: there is no other yet."""


class ActorRole(StrEnum):
    """The role of an actor within the organisation; each role may do all that the later ones may.

    An admin manages nodes, clusters and the runs of all users, a member their own runs, a viewer reads.
    """

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class Actor(Struct, frozen=True, kw_only=True):
    """A user in an organisation, with roles there."""

    user: str
    organisation: str = OWN_ORGANISATION
    roles: frozenset[ActorRole] = frozenset({ActorRole.MEMBER})


class RunScope(StrEnum):
    """The runs in a list: the actor's own, or those of all users in the organisation."""

    MINE = "mine"
    ALL = "all"
