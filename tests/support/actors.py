"""Who commands and asks in tests of the control plane."""

from __future__ import annotations

from tarmac.model.actor import Actor, ActorRole

ADA = Actor(user="ada", roles=frozenset({ActorRole.ADMIN}))
"""The owner of the server."""


def member(user: str) -> Actor:
    """Somebody else with an account."""
    return Actor(user=user, roles=frozenset({ActorRole.MEMBER}))
