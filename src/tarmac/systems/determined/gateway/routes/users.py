"""`det user list`, `whoami`, `create`, `edit`, `change-password`, and the users who send requests.

A server with accounts knows their names and those of its owner. Listed in `application`.
"""

import re
from collections.abc import Set
from typing import Any

from tarmac.api.account_operations import UserBody
from tarmac.model.actor import Action, Actor, ActorRole, Sight
from tarmac.model.codec import inherited, replace
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.people.account import TOKEN_PREFIX, AccountSettings, salted
from tarmac.server.accounts.authenticator import actor_of
from tarmac.server.http.auth import Caller
from tarmac.systems.determined.gateway.calls import Access, Call, Route, inner
from tarmac.systems.determined.gateway.gateway import Gateway
from tarmac.systems.determined.gateway.tokens import DEFAULT_USER, OPEN_USERS, TokenKind
from tarmac.systems.determined.identity import number_of

_ADMIN = frozenset({ActorRole.ADMIN})
_UNCHANGED = ("username", "displayName", "remote", "agentUserGroup")
_SALTED = re.compile("[0-9a-f]{128}")


def owner_names(gateway: Gateway) -> Set[str]:
    """The names for the owner of the server: their own, and the first two users of Determined."""
    return {*OPEN_USERS, gateway.owner}


def is_owners(gateway: Gateway, name: str) -> bool:
    """Whether a name has the owner's rights: on a server without accounts every name has."""
    return name in owner_names(gateway) or not gateway.people.accounts


def caller_of(gateway: Gateway, token: str) -> Caller | None:
    """The user with a token: of an account, of a login, or of the home; None for any other.

    Raises Unauthorized for a token that is unknown, revoked or expired, or whose account is disabled.
    """
    callers = gateway.service.accounts.callers
    if token.startswith(TOKEN_PREFIX):
        return callers.bearer(token, loopback=True)
    if gateway.tokens.is_password(salted(token)):
        return Caller(actor=Actor(user=gateway.owner, roles=_ADMIN), local=False)
    claim = gateway.tokens.read(token, now=gateway.service.clock.now())
    if claim is not None and claim.kind is TokenKind.TOKEN:
        return callers.holder(claim.subject)
    if claim is None or claim.kind is not TokenKind.USER or not is_owners(gateway, claim.subject):
        return None
    return Caller(actor=Actor(user=claim.subject, roles=_ADMIN), local=False)


def code_of(gateway: Gateway, owner: str) -> Actor:
    """The code of a user's run: it changes runs of this user alone, and sees those that the user may see."""
    people = gateway.people
    account = people.accounts.get(owner)
    sees = Sight(user=owner, users=frozenset()) if people.accounts else None
    return Actor(user=owner, sees=sees if account is None else actor_of(account, people).sees)


def user_id(name: str) -> int:
    """A number for a user: Determined's own `admin` and `determined` are 1 and 2."""
    return {"admin": 1, DEFAULT_USER: 2}.get(name) or number_of("user", name)


def user_record(gateway: Gateway, name: str) -> dict[str, Any]:
    """A user in Determined's form."""
    account = gateway.people.accounts.get(name)
    return {
        **{"id": user_id(name), "username": name, "displayName": ""},
        "admin": is_owners(gateway, name) if account is None else account.role is ActorRole.ADMIN,
        "active": account is None or not account.disabled,
        "remote": account is not None and account.identity is not None,
        **dict.fromkeys(("agentUserGroup", "modifiedAt", "lastAuthAt")),
    }


def _me(call: Call) -> Any:
    return {"user": user_record(call.gateway, call.actor.user)}


def _users(call: Call) -> Any:
    records, active = [user_record(call.gateway, name) for name in sorted(_names(call))], call.flag("active")
    return call.page("users", [each for each in records if active in (None, each["active"])])


def _user(call: Call) -> Any:
    return {"user": user_record(call.gateway, _name(call))}


def _name(call: Call) -> str:
    """The user in the path, by name or number; raises NotFound."""
    given, names = call.path("user"), _names(call)
    found = {given} & names or {each for each in names if str(user_id(each)) == given}
    if len(found) != 1:
        raise NotFound(f"there is no user {given!r:.60}")
    return found.pop()


def _names(call: Call) -> set[str]:
    """The known users: the caller and all accounts; without accounts the owner and the users with runs."""
    accounts, caller = call.gateway.service.accounts, call.actor.user
    if accounts.exist():
        return {caller} | {each.name for each in accounts.users(call.actor)}
    owners = {each.user for each in call.plane.usage.used_slots(call.actor, None, None)}
    return {caller, call.gateway.owner, DEFAULT_USER} | owners


def _create(call: Call) -> Any:
    name = inner(call.body, "user", "username")
    if not isinstance(name, str):
        raise InvalidInput("user: {username: ...} is expected")
    if name in call.gateway.people.accounts:
        raise Refused(f"there is a user {name} already", hint=f"det user edit {name} changes it")
    return _store(call, name, AccountSettings(role=_role(inner(call.body, "user", "admin"))))


def _role(admin: Any) -> ActorRole:
    return ActorRole.ADMIN if admin is True else ActorRole.MEMBER


def _change(call: Call) -> Any:
    """Activate or deactivate an account, change its role, or set its password."""
    if others := [each for each in _UNCHANGED if call.field(each) is not None]:
        raise InvalidInput(f"{others[0]}: the gateway does not change it", hint="tarmac users set --help")
    name, active, admin = _name(call), call.field("active"), call.field("admin")
    account = call.gateway.people.accounts.get(name)
    if account is None:
        raise NotFound(f"there is no account {name!r}", hint=f"tarmac users add {name}")
    if active is not None:
        account = replace(account, disabled=active is not True)
    if admin is not None and admin is not (account.role is ActorRole.ADMIN):
        account = replace(account, role=_role(admin))
    return _store(call, name, AccountSettings(**inherited(AccountSettings, account)))


def _store(call: Call, name: str, settings: AccountSettings) -> Any:
    """Store an account, and the password of the request if there is one: clients send its salted form."""
    password = call.typed("password", str, "a text") or None
    if password is not None and not _SALTED.fullmatch(password):
        raise InvalidInput("password: a salted SHA-512 is expected, in hexadecimal digits")
    call.gateway.service.accounts.set_user(call.caller, name, UserBody(account=settings), password=password)
    return {"user": user_record(call.gateway, name)}


ROUTES = (
    Route("GET", "/api/v1/me", _me, Access.TASK),
    Route("GET", "/api/v1/users", _users),
    Route("GET", "/api/v1/users/{user}/by-username", _user),
    Route("GET", "/api/v1/users/{user}", _user),
    Route("POST", "/api/v1/users", _create, action=Action.MANAGE),
    Route("PATCH", "/api/v1/users/{user}", _change, action=Action.MANAGE),
)
