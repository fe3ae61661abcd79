"""The permissions of actors: one table of roles and actions, and the rules about owners and projects.

Called by `server.http.routing` for the action of each operation, and by `service` and its parts, and the
server's services, for what belongs to a user or a project.
"""

from typing import Protocol

from tarmac.model.actor import Action, Actor, ActorRole
from tarmac.model.errors import Forbidden

__all__ = ["ALLOWED", "Action", "check", "may_see", "may_see_credits", "may_use_project"]

ALLOWED = {
    ActorRole.ADMIN: frozenset(Action),
    ActorRole.MEMBER: frozenset(Action) - {Action.MANAGE},
    ActorRole.VIEWER: frozenset({Action.OPEN, Action.READ, Action.ACCOUNT}),
}
"""The one table of what a role may do. docs/operating/roles.md and the tests of routes are made from it."""

_PHRASES = {
    Action.OPEN: "log in here",
    Action.READ: "read here",
    Action.ACCOUNT: "change an account",
    Action.SUBMIT: "submit runs",
    Action.CONTROL: "change runs",
    Action.MANAGE: "manage this server",
}


def check(
    actor: Actor, action: Action, *, owner: str | None = None, project: str | None = None, what: str = "runs"
) -> None:
    """Raise Forbidden if the actor may not do this.

    `owner` is the user whose run, secret, dataset or artifact it concerns, `what` the plural noun for it, and
    `project` the project that has it. Without a project, a role in any project counts.
    """
    if actor.scopes is not None and action not in actor.scopes:
        scopes = ", ".join(sorted(actor.scopes))
        raise Forbidden(
            f"this token of {actor.user} may not {_PHRASES[action]}: its scopes are {scopes}",
            hint=f"a token with the scope {action} may",
        )
    roles, somewhere = _roles(actor, project), frozenset[ActorRole]()
    if project is None and action is not Action.MANAGE:
        somewhere = frozenset(role for role in actor.projects.values() if role is not None)
    if not any(action in ALLOWED[role] for role in roles | somewhere):
        where = f" in project {project}" if project in actor.projects else ""
        raise Forbidden(f"{actor.user} may not {_PHRASES[action]}{where}", hint=_hint(action))
    if action in (Action.READ, Action.OPEN) or owner in (None, actor.user) or ActorRole.ADMIN in roles:
        return
    if owner not in actor.controls:
        raise Forbidden(f"{actor.user} may not change {what} of {owner}", hint="ask their owner or an admin")


class Owned(Protocol):
    """A run or an experiment, or a record about one."""

    @property
    def user(self) -> str: ...
    @property
    def project(self) -> str: ...


def may_see(actor: Actor, item: Owned) -> bool:
    """Whether the actor may see this run or experiment."""
    return actor.sees is None or actor.sees.covers(item.user, item.project)


def may_see_credits(actor: Actor, account: str) -> bool:
    """Whether the actor may see an account of credits: their own, and those of projects that they may use."""
    kind, _, name = account.partition(":")
    own = name == actor.user if kind == "user" else actor.projects.get(name, ActorRole.MEMBER) is not None
    return own or ActorRole.ADMIN in actor.roles


def may_use_project(actor: Actor, project: str) -> bool:
    """Whether the actor may use the secrets of a project: in runs, in lists, and to set others."""
    return not _roles(actor, project).isdisjoint({ActorRole.ADMIN, ActorRole.MEMBER})


def _roles(actor: Actor, project: str | None) -> frozenset[ActorRole]:
    """The roles that count: a project with members has roles of its own, which admins of the server keep."""
    if project is None or project not in actor.projects or ActorRole.ADMIN in actor.roles:
        return actor.roles
    role = actor.projects[project]
    return frozenset({role}) if role is not None else frozenset({ActorRole.VIEWER})


def _hint(action: Action) -> str:
    role = next(role for role in reversed(ActorRole) if action in ALLOWED[role])
    return f"this takes the role {role.value}"
