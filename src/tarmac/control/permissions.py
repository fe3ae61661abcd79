"""The permissions of actors. Every command and question is checked here, and nowhere else.

Called by `service` and its parts, and by the server for secrets, datasets, artifacts, code and itself.
"""

from enum import Enum

from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Forbidden


class Action(Enum):
    """A kind of command or question; the value completes "USER may not ..."."""

    READ = "read here"
    SUBMIT = "submit runs"
    CONTROL = "change runs"
    MANAGE = "manage this server"


_ADMIN = frozenset(Action)
_MEMBER = frozenset({Action.READ, Action.SUBMIT, Action.CONTROL})
_VIEWER = frozenset({Action.READ})
_ALLOWED = {ActorRole.ADMIN: _ADMIN, ActorRole.MEMBER: _MEMBER, ActorRole.VIEWER: _VIEWER}


def check(actor: Actor, action: Action, *, owner: str | None = None, what: str = "runs") -> None:
    """Raise Forbidden if the actor may not do this.

    `owner` is the user whose run, secret, dataset or artifact it concerns, and `what` the plural noun for it.
    """
    allowed = {one for role in actor.roles for one in _ALLOWED[role]}
    if action not in allowed:
        raise Forbidden(f"{actor.user} may not {action.value}", hint=_hint(action))
    if owner not in (None, actor.user) and ActorRole.ADMIN not in actor.roles and action is not Action.READ:
        raise Forbidden(f"{actor.user} may not change {what} of {owner}", hint="ask their owner or an admin")


def _hint(action: Action) -> str:
    role = next(role for role in reversed(ActorRole) if action in _ALLOWED[role])
    return f"this takes the role {role.value}"
