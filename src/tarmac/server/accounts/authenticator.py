"""Finds out who sends a request: by a token, or by the user of a local process. Used by `http.auth`."""

import hashlib
import hmac
import os
import pwd
import time
from threading import Lock

from tarmac.model.actor import Action, Actor, ActorRole, Sight
from tarmac.model.errors import Unauthorized
from tarmac.model.people.account import (
    EVERY_USER,
    TOKEN_PREFIX,
    Account,
    AccountRecords,
    Organisation,
    People,
    Token,
    Visibility,
    salted,
)
from tarmac.model.ports import Clock
from tarmac.server.http.auth import Access, Caller

LOOK_AGAIN_S = 1.0
"""Maximum age of the known accounts: another server on the database may have changed one."""

USE_NOTED_S = 60.0

API_USER = "api"
"""The user of requests with the token of the home."""

_ADMIN, _MEMBER = frozenset({ActorRole.ADMIN}), frozenset({ActorRole.MEMBER})


def digest_of(token: str) -> str:
    """The digest of a token, under which it is stored: tokens are too random to be guessed from it."""
    return digest_of_salted(salted(token))


def digest_of_salted(token: str) -> str:
    """The same, of a token in its salted form."""
    return hashlib.sha256(token.encode()).hexdigest()


class Authenticator:
    """The callers of one server. From any thread."""

    def __init__(self, records: AccountRecords, clock: Clock, access: Access) -> None:
        self._records, self._clock, self._access = records, clock, access
        self._lock = Lock()
        self._people: tuple[float, People] | None = None
        self._page_session: str | None = None

    def people(self) -> People:
        """All accounts, not older than `LOOK_AGAIN_S`."""
        now = time.monotonic()
        with self._lock:
            if self._people is None or now - self._people[0] > LOOK_AGAIN_S:
                self._people = now, self._records.people()
            return self._people[1]

    def system_user_of(self, user: str) -> str | None:
        """The system user of the runs of an account; None: that of the server."""
        account = self.people().accounts.get(user)
        return account.system_user if account is not None else None

    def forget(self) -> None:
        """Read the accounts anew with the next request: one has changed."""
        with self._lock:
            self._people = None

    def admit_page(self, session: str) -> None:
        """Accept this session of browsers on this machine: it is that of the home's owner."""
        self._page_session = session

    def local(self, uid: int | None) -> Caller:
        """The user of a process on this machine. The owner of the home and root are admins.

        Any other user has the rights of the account of that name; without one, those of a member.
        """
        if uid is None or uid == os.getuid():
            return Caller(actor=Actor(user=self._access.owner, roles=_ADMIN), local=True)
        name = user_name(uid)
        if uid == 0:
            return Caller(actor=Actor(user=name, roles=_ADMIN), local=True)
        people = self.people()
        account = people.accounts.get(name)
        if account is None:
            roles = _MEMBER if not people.accounts else frozenset[ActorRole]()
            return Caller(actor=Actor(user=name, roles=roles), local=True)
        return Caller(actor=actor_of(_enabled(account), people), local=True)

    def bearer(self, text: str, *, loopback: bool, cookie: bool = False) -> Caller:
        """The owner of a token; the token of the home counts on loopback alone. Raises Unauthorized.

        `cookie`: a browser sent it as its session.
        """
        if not text.startswith(TOKEN_PREFIX):
            page = self._page_session if cookie else None
            if page and loopback and hmac.compare_digest(text.encode(), page.encode()):
                return Caller(actor=Actor(user=self._access.owner, roles=_ADMIN), local=False)
            home = self._access.token if not cookie else None
            if home and loopback and hmac.compare_digest(text.encode(), home.encode()):
                return Caller(actor=Actor(user=API_USER, roles=_ADMIN), local=False)
            raise Unauthorized("this server wants a token", hint=_TOKEN_HINT)
        return self.holder(digest_of(text), session=cookie)

    def holder(self, digest: str, *, session: bool = False) -> Caller:
        """The owner of the token with this digest, or of that session. Raises Unauthorized."""
        now, token = self._clock.now(), self._records.token(digest)
        if token is None or token.session is not session:
            raise Unauthorized("this token is unknown", hint=_TOKEN_HINT)
        if token.revoked_at is not None:
            raise Unauthorized(f"the token {token.id} of {token.user} was revoked", hint=_TOKEN_HINT)
        if token.expires_at is not None and token.expires_at <= now:
            raise Unauthorized(f"the token {token.id} of {token.user} has expired", hint=_TOKEN_HINT)
        if token.user not in self.people().accounts:
            self.forget()  # another server may just have made the account
        people = self.people()
        if (account := people.accounts.get(token.user)) is None:
            raise Unauthorized("this token is unknown", hint=_TOKEN_HINT)
        actor = actor_of(_enabled(account), people, token)
        if token.last_used_at is None or now - token.last_used_at > USE_NOTED_S:
            self._records.note_use(token.id, at=now)
        return Caller(actor=actor, local=False, token=token.id)


def actor_of(account: Account, people: People, token: Token | None = None) -> Actor:
    """The actor of an account, limited by the scopes of a token."""
    projects: dict[str, ActorRole | None] = dict.fromkeys(each.project for each in people.memberships)
    for name in (EVERY_USER, account.name):
        projects |= {each.project: each.role for each in people.memberships if each.user == name}
    users, controls, own = None, frozenset[str](), {project for project, role in projects.items() if role}
    if account.role is not ActorRole.ADMIN:
        group = people.organisations.get(account.organisation, Organisation(name=account.organisation))
        if group.visibility is not Visibility.VIEW:
            users = frozenset({account.name})
        if group.visibility is Visibility.CONTROL:
            mates = (each for each in people.accounts.values() if each.organisation == group.name)
            users = controls = frozenset(each.name for each in mates)
    sees = Sight(
        user=account.name, users=users, projects=frozenset(own), closed=frozenset(projects.keys() - own)
    )
    scopes = frozenset(token.scopes) if token is not None and token.scopes is not None else None
    return Actor(
        user=account.name,
        roles=frozenset({account.role}),
        scopes=scopes if scopes is None else scopes | {Action.OPEN, Action.READ},
        projects=projects,
        sees=None if account.role is ActorRole.ADMIN else sees,
        controls=controls,
    )


def user_name(uid: int) -> str:
    """The name of a user of this machine; the number if the user has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


_TOKEN_HINT = (
    "tarmac login URL gets one; on the server's own machine TARMAC_TOKEN may be the content of the file "
    "`token` in its home; a program sends the header Authorization: Bearer TOKEN"
)


def _enabled(account: Account) -> Account:
    if account.disabled:
        raise Unauthorized(f"the account {account.name} is disabled", hint="ask an admin of the server")
    return account
