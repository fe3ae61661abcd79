"""Accounts, organisations, members of projects and tokens, for the routes. Made by `wiring`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from tarmac import api
from tarmac.control.permissions import ALLOWED, Action, check
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused, Unauthorized
from tarmac.model.people.account import (
    EVERY_USER,
    TOKEN_PREFIX,
    Account,
    AccountRecords,
    Membership,
    Organisation,
    Token,
    salted,
)
from tarmac.model.ports import Clock
from tarmac.server.accounts.authenticator import Authenticator, digest_of
from tarmac.server.http.auth import Caller

if TYPE_CHECKING:
    from tarmac.vault.passwords import Passwords

LOGIN_S = 30 * 86400.0
SESSION_S = 12 * 3600.0
LONGEST_TOKEN_S = 366 * 86400.0

NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,61}[a-z0-9]|[a-z0-9]")
NAMES = "1 to 63 lower-case letters, digits, '.', '_', '-' and '@', with a letter or digit at both ends"


class AccountService:
    """Commands and queries about accounts. From any thread."""

    def __init__(self, records: AccountRecords, callers: Authenticator, clock: Clock) -> None:
        self.records, self.callers, self._clock = records, callers, clock

    def exist(self) -> bool:
        """Whether this server has accounts."""
        return bool(self.callers.people().accounts)

    @cached_property
    def _passwords(self) -> Passwords:
        from tarmac.vault.passwords import Passwords  # noqa: PLC0415 - most servers have none

        return Passwords()

    def login(self, body: api.LoginBody, *, session: bool = False) -> api.NewToken:
        """A token for a user with the right password, or the session of a browser; raises Unauthorized."""
        return self.login_salted(body.user, salted(body.password), body.label, session=session)

    def login_salted(self, user: str, password: str, label: str, *, session: bool = False) -> api.NewToken:
        """As `login`, with the password in its salted form."""
        account = self.callers.people().accounts.get(user)
        stored = self.records.password(user) if account is not None else None
        if not self._passwords.matches(password, stored) or account is None or account.disabled:
            raise Unauthorized("the user or the password is wrong, or the account is disabled")
        lifetime_s = SESSION_S if session else LOGIN_S
        return self.new_token(account, label, lifetime_s=lifetime_s, session=session)

    def own(self, actor: Actor) -> Account:
        """The caller's account; raises NotFound for the users of this machine without one."""
        return self.account(actor.user)

    def set_password(self, actor: Actor, body: api.PasswordBody) -> Account:
        """Set the caller's password, which ends all of their other logins.

        A token with scopes may not: a login with the password would have all rights of the account.
        """
        if actor.scopes is not None:
            raise Forbidden("a token with scopes sets no password", hint="log in, or use one without scopes")
        account = self.account(actor.user)
        stored = self.records.password(account.name)
        if stored is not None and not self._passwords.matches(salted(body.current or ""), stored):
            raise Forbidden("the current password is wrong")
        new = self._passwords.new(body.password)
        self.records.revoke(at=self._clock.now(), user=account.name)
        return self.put(replace(account, has_password=True), new)

    def users(self, actor: Actor) -> list[Account]:
        """All accounts by name; those of other organisations only for users who may see their runs."""
        accounts = sorted(self.callers.people().accounts.values(), key=lambda account: account.name)
        users = actor.sees.users if actor.sees is not None else None
        return [each for each in accounts if users is None or each.name in users]

    def set_user(
        self, caller: Caller, name: str, body: api.UserBody, *, password: str | None = None
    ) -> Account:
        """Create or change an account. The first one is an admin, created on the server's own machine.

        `password` is a new one in its salted form, in place of that of the body.
        """
        check(caller.actor, Action.MANAGE)
        accounts, settings = self.callers.people().accounts, body.account
        if body.password is not None:
            password = self._passwords.new(body.password)
        known = accounts.get(name)
        if known is None:
            _check_name("user", name)
        if settings.system_user is not None:
            _check_system_user(settings.system_user)
        if not accounts:
            if not caller.local:
                raise first_account(name)
            settings = replace(settings, role=ActorRole.ADMIN)
        changed = Account(
            **asdict(settings),
            name=name,
            created_at=known.created_at if known is not None else self._clock.now(),
            has_password=password is not None or (known is not None and known.has_password),
        )
        return self.put(changed, password)

    def remove_user(self, actor: Actor, name: str) -> Account:
        """Remove an account and its tokens; its runs stay under its name."""
        check(actor, Action.MANAGE)
        account = self.account(name)
        self.records.remove_account(name)
        self.callers.forget()
        return account

    def organisations(self, actor: Actor) -> list[Organisation]:
        """The organisations of all accounts, by name."""
        check(actor, Action.READ)
        people = self.callers.people()
        names = {each.organisation for each in people.accounts.values()} | set(people.organisations)
        return [people.organisations.get(name, Organisation(name=name)) for name in sorted(names)]

    def set_organisation(self, actor: Actor, organisation: Organisation) -> Organisation:
        """Set what members of an organisation may do with the runs of each other."""
        check(actor, Action.MANAGE)
        _check_name("organisation", organisation.name)
        self.records.put_organisation(organisation)
        self.callers.forget()
        return organisation

    def members(self, actor: Actor, project: str) -> list[Membership]:
        """The members of a project, by name; none if everybody may use it."""
        check(actor, Action.READ)
        found = (each for each in self.callers.people().memberships if each.project == project)
        return sorted(found, key=lambda each: each.user)

    def set_member(self, actor: Actor, project: str, body: api.MemberBody) -> list[Membership]:
        """Give a user a role in a project, or end the membership: for admins of the project or server."""
        if ActorRole.ADMIN not in {*actor.roles, actor.projects.get(project)}:
            raise Forbidden(
                f"{actor.user} may not change the members of {project}", hint="ask one of its admins"
            )
        _check_scopes(actor, () if body.role is None else ALLOWED[body.role])
        if body.role is None:
            self.records.remove_membership(project, body.user)
        else:
            if body.user != EVERY_USER:
                self.account(body.user)
            self.records.put_membership(Membership(project=project, user=body.user, role=body.role))
        self.callers.forget()
        return self.members(actor, project)

    def tokens(self, actor: Actor, query: api.TokensQuery) -> list[Token]:
        """Tokens of the caller, of another user or of all users."""
        if query.all or query.user not in (None, actor.user):
            check(actor, Action.MANAGE)
        return self.records.tokens(None if query.all else query.user or actor.user)

    def add_token(self, actor: Actor, body: api.TokenBody) -> api.NewToken:
        """A new token, whose scopes are not more than those of the caller's own."""
        name = body.user or actor.user
        if name != actor.user:
            check(actor, Action.MANAGE)
        account = self.account(name)
        scopes = body.scopes
        if actor.scopes is not None:
            scopes = tuple(sorted(actor.scopes)) if scopes is None else scopes
            _check_scopes(actor, scopes)
        lifetime_s = body.lifetime_s
        if not account.service and (lifetime_s is None or lifetime_s > LONGEST_TOKEN_S):
            raise InvalidInput(
                "the token of a person lives for at most 366 days", hint="service accounts have no limit"
            )
        return self.new_token(account, body.label, lifetime_s=lifetime_s, scopes=scopes)

    def new_token(
        self,
        account: Account,
        label: str,
        *,
        lifetime_s: float | None,
        scopes: tuple[Action, ...] | None = None,
        session: bool = False,
        token_id: str | None = None,
    ) -> api.NewToken:
        """A new token of an account, which the caller of this method has checked.

        `token_id`: that of the login that gives it; raises Unauthorized if that login gave one already.
        """
        text, now = TOKEN_PREFIX + secrets.token_urlsafe(32), self._clock.now()
        token = Token(
            id=token_id or secrets.token_hex(6),
            user=account.name,
            label=label,
            created_at=now,
            expires_at=None if lifetime_s is None else now + lifetime_s,
            scopes=scopes,
            session=session,
        )
        if not self.records.add_token(token, digest=digest_of(text)):
            raise Unauthorized("this login has given its token already", hint="log in again")
        return api.NewToken(token=token, text=text)

    def revoke_token(self, actor: Actor, token_id: str) -> Token:
        """Revoke a token of the caller, or (for an admin) of any user; twice is harmless."""
        mine = {token.id: token for token in self.records.tokens(actor.user)}
        manages = ActorRole.ADMIN in actor.roles and Action.MANAGE in (actor.scopes or Action)
        if token_id not in mine and manages:
            mine = {token.id: token for token in self.records.tokens()}
        if token_id not in mine:
            raise NotFound(f"there is no token {token_id!r}", hint="tarmac tokens ls lists them")
        now = self._clock.now()
        self.records.revoke(at=now, token_id=token_id)
        return replace(mine[token_id], revoked_at=mine[token_id].revoked_at or now)

    def put(self, account: Account, password: str | None = None) -> Account:
        """Store an account, in place of one of its name, with a new password in its salted form.

        A disabled account loses its tokens, one with another role its sessions.
        """
        known = self.callers.people().accounts.get(account.name)
        if account.disabled:
            self.records.revoke(at=self._clock.now(), user=account.name)
        elif known is not None and known.role is not account.role:
            for token in self.records.tokens(account.name):
                if token.session:
                    self.records.revoke(at=self._clock.now(), token_id=token.id)
        hashed = self._passwords.hashed(password) if password is not None else None
        self.records.put_account(account, password=hashed)
        self.callers.forget()
        return account

    def account(self, name: str) -> Account:
        self.callers.forget()
        account = self.callers.people().accounts.get(name)
        if account is None:
            raise NotFound(f"there is no user {name!r}", hint="tarmac users ls lists them")
        return account


def first_account(name: str) -> Refused:
    """The refusal to make the first account for another machine."""
    return Refused(
        "the first account is created on the server's own machine, at the socket of its home",
        hint=f"there: tarmac users add {name}",
    )


def _check_scopes(actor: Actor, given: Iterable[Action]) -> None:
    """Refuse that a token with scopes gives more than it has."""
    if actor.scopes is not None and (beyond := sorted({*given} - actor.scopes)):
        raise Forbidden(f"your own token has not the scope {beyond[0]}")


def _check_name(what: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidInput(f"{name!r:.100} cannot be the name of a {what}", hint=NAMES)


def _check_system_user(name: str) -> None:
    """Refuse root; whether a node has the account and allows it is known there."""
    if name == "root" or not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", name):
        raise InvalidInput(f"runs cannot run as the system user {name!r:.100}")
