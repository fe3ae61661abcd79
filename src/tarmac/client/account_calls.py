"""The methods about accounts, tokens and the audit log. Inherited by `Client` through `ResourceCalls`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tarmac import api
from tarmac.client.calls import Calls

if TYPE_CHECKING:
    from tarmac.model.actor import Action, ActorRole
    from tarmac.model.people.account import (
        Account,
        AccountSettings,
        AuditEntry,
        Membership,
        Organisation,
        Token,
        Visibility,
    )


class AccountCalls(Calls):
    """One method per route. The texts of tokens are only in the answers that make them."""

    def login(self, user: str, password: str, *, label: str = "login") -> api.NewToken:
        """A new token for a user with this password; raises Unauthorized."""
        return self._call(api.LOGIN, body=api.LoginBody(user=user, password=password, label=label))

    def begin_sign_on(self, redirect_uri: str, *, browser: bool = False, label: str = "login") -> api.SignOn:
        """Begin a login by single sign-on; `client.sign_on` finishes it."""
        body = api.BeginSignOnBody(redirect_uri=redirect_uri, browser=browser, label=label)
        return self._call(api.BEGIN_SIGN_ON, body=body)

    def finish_sign_on(self, request: str, code: str = "", state: str = "") -> api.SignOnProgress:
        """The token of a login, if the user has confirmed it."""
        return self._call(api.FINISH_SIGN_ON, body=api.SignOnBody(request=request, code=code, state=state))

    def logout(self) -> Token:
        """Revoke the token of this client."""
        return self._call(api.LOGOUT)

    def account(self) -> Account:
        """The account of this client; raises NotFound for a user of the server's machine without one."""
        return self._call(api.WHO_AM_I)

    def set_password(self, password: str, *, current: str | None = None) -> Account:
        """Set the password of this client's account, and revoke its tokens."""
        return self._call(api.SET_PASSWORD, body=api.PasswordBody(password=password, current=current))

    def users(self) -> list[Account]:
        """All accounts that this client may see."""
        return self._call(api.USERS)

    def set_user(
        self, name: str, settings: AccountSettings | None = None, *, password: str | None = None
    ) -> Account:
        """Create an account, or replace its settings; without a password it keeps the present one."""
        given = {} if settings is None else {"account": settings}
        return self._call(api.SET_USER, name, body=api.UserBody(**given, password=password))

    def remove_user(self, name: str) -> Account:
        """Remove an account and its tokens."""
        return self._call(api.REMOVE_USER, name)

    def organisations(self) -> list[Organisation]:
        """The organisations of all accounts."""
        return self._call(api.ORGANISATIONS)

    def set_organisation(self, name: str, visibility: Visibility) -> Organisation:
        """Set what members of an organisation may do with the runs of each other."""
        return self._call(api.SET_ORGANISATION, name, body=api.OrganisationBody(visibility=visibility))

    def members(self, project: str) -> list[Membership]:
        """The members of a project; none if all members of the server may use it."""
        return self._call(api.MEMBERS, project)

    def set_member(self, project: str, user: str, role: ActorRole | None) -> list[Membership]:
        """Give a user a role in a project, or with None end the membership."""
        return self._call(api.SET_MEMBER, project, body=api.MemberBody(user=user, role=role))

    def tokens(self, *, user: str | None = None, everybody: bool = False) -> list[Token]:
        """The tokens of this client's account, of another user, or of all, without their texts."""
        return self._call(api.TOKENS, query=api.TokensQuery(user=user, all=everybody))

    def add_token(
        self, label: str, *, scopes: Sequence[Action] | None = None, **options: Any
    ) -> api.NewToken:
        """A new token, with its text. The options are the other fields of `TokenBody`."""
        chosen = None if scopes is None else tuple(scopes)
        return self._call(api.ADD_TOKEN, body=api.TokenBody(label=label, scopes=chosen, **options))

    def revoke_token(self, token_id: str) -> Token:
        """Revoke a token, by its id."""
        return self._call(api.REVOKE_TOKEN, token_id)

    def subscriptions(self, *, user: str | None = None) -> list[api.PersonalSubscription]:
        """The receivers of messages about all runs of this client's account, or of another user."""
        return self._call(api.SUBSCRIPTIONS, query=api.SubscriptionsQuery(user=user))

    def subscribe(self, to: str | None, **subscription: Any) -> list[api.PersonalSubscription]:
        """Notify a receiver of events (`on`, `waiting_s`) of all own runs; with no events, stop that."""
        return self._call(api.SUBSCRIBE, body=api.SubscriptionBody(to=to, **subscription))

    def audit(self, *, user: str | None = None, since: float = 0.0, limit: int = 100) -> list[AuditEntry]:
        """The newest entries of the audit log, newest first."""
        return self._call(api.AUDIT, query=api.AuditQuery(user=user, since=since, limit=limit))
