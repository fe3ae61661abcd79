"""Accounts, tokens and the audit log. Joined by `server.app`."""

from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.errors import Refused
from tarmac.model.people.account import Account, AuditEntry, Membership, Organisation, Token
from tarmac.server.accounts.account_service import SESSION_S
from tarmac.server.accounts.auditing import UNCHANGED
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CALLER, SESSION_COOKIE
from tarmac.server.http.origins import ORIGIN, network_of
from tarmac.server.http.rates import RateKind
from tarmac.server.http.routing import Call, Routes
from tarmac.server.notifying import personal
from tarmac.server.service import Service


def add_account_routes(routes: Routes, service: Service) -> None:
    """Add the routes about logging in, users, members and tokens."""
    accounts = service.accounts

    def limit(call: Call[Query, api.LoginBody]) -> None:
        """Raise TooManyRequests if somebody may be guessing a password."""
        service.rates.check(RateKind.LOGIN_ADDRESS, network_of(call.request.scope.get(ORIGIN, "")))
        service.rates.check(RateKind.LOGIN_ACCOUNT, call.body.user)

    @routes.serve(api.LOGIN)
    def login(call: Call[Query, api.LoginBody]) -> api.NewToken:
        """Return a new token for a user with the right password. 401 for any other."""
        limit(call)
        return accounts.login(call.body)

    @routes.serve(api.BEGIN_SESSION)
    def begin_session(call: Call[Query, api.LoginBody]) -> Response:
        """Begin the session of a browser, in a cookie, for a user with the right password, or return 401."""
        limit(call)
        made = accounts.login(call.body, session=True)
        answer = JsonAnswer(accounts.account(made.token.user))
        answer.set_cookie(
            SESSION_COOKIE, made.text, max_age=int(SESSION_S), secure=True, httponly=True, samesite="lax"
        )
        return answer

    @routes.serve(api.END_SESSION)
    def end_session(call: Call) -> Response:
        """End the session of this browser."""
        answer = JsonAnswer(_revoked(call))
        answer.delete_cookie(SESSION_COOKIE, secure=True, httponly=True, samesite="lax")
        return answer

    @routes.serve(api.LOGOUT)
    def logout(call: Call) -> Token:
        """Revoke the token of this request."""
        return _revoked(call)

    def _revoked(call: Call) -> Token:
        caller = call.request.scope.get(CALLER)
        if caller is None or caller.token is None:
            raise Refused("this request has no token of an account to revoke")
        return accounts.revoke_token(caller.actor, caller.token)

    @routes.serve(api.WHO_AM_I)
    def who_am_i(call: Call) -> Account:
        """Return the caller's account."""
        return accounts.own(call.actor)

    @routes.serve(api.SET_PASSWORD)
    def set_password(call: Call[Query, api.PasswordBody]) -> Account:
        """Set the caller's password, and revoke all of their tokens."""
        return accounts.set_password(call.actor, call.body)

    _add_sign_on(routes, service)
    _add_users(routes, service)
    _add_groups(routes, service)
    _add_tokens(routes, service)
    _add_subscriptions(routes, service)


def _add_sign_on(routes: Routes, service: Service) -> None:
    @routes.serve(api.BEGIN_SIGN_ON)
    def begin_sign_on(call: Call[Query, api.BeginSignOnBody]) -> api.SignOn:
        """Begin a login by single sign-on. 409 if the server has none, 503 if its provider is down."""
        service.rates.check(RateKind.LOGIN_ADDRESS, network_of(call.request.scope.get(ORIGIN, "")))
        return service.sign_on.begin(call.body)

    @routes.serve(api.FINISH_SIGN_ON)
    def finish_sign_on(call: Call[Query, api.SignOnBody]) -> api.SignOnProgress:
        """Return a new token for the user whom the provider names, once for each login.

        401 if the provider refuses the user, 503 if it is down.
        """
        found = service.sign_on.finish(call.body)
        if found.login is None:
            call.request.scope[UNCHANGED] = True  # the client asks again
        return found


def _add_users(routes: Routes, service: Service) -> None:
    accounts = service.accounts

    @routes.serve(api.USERS)
    def users(call: Call) -> list[Account]:
        """Return all accounts that the caller may see, by name."""
        return accounts.users(call.actor)

    @routes.serve(api.SET_USER)
    def set_user(call: Call[Query, api.UserBody]) -> Account:
        """Create an account, or change fields of one. A disabled account loses its tokens.

        409 for the first account from another machine.
        """
        return accounts.set_user(call.caller, call.reference, call.body)

    @routes.serve(api.REMOVE_USER)
    def remove_user(call: Call) -> Account:
        """Remove an account, its tokens and subscriptions, and return it. Its runs stay under its name."""
        return accounts.remove_user(call.actor, call.reference)


def _add_groups(routes: Routes, service: Service) -> None:
    accounts = service.accounts

    @routes.serve(api.ORGANISATIONS)
    def organisations(call: Call) -> list[Organisation]:
        """Return the organisations, by name."""
        return accounts.organisations(call.actor)

    @routes.serve(api.SET_ORGANISATION)
    def set_organisation(call: Call[Query, api.OrganisationBody]) -> Organisation:
        """Set what the members of an organisation may do with the runs of each other."""
        new = Organisation(name=call.reference, visibility=call.body.visibility)
        return accounts.set_organisation(call.actor, new)

    @routes.serve(api.MEMBERS)
    def members(call: Call) -> list[Membership]:
        """Return the members of a project, by name; none if all members of the server may use it."""
        return accounts.members(call.actor, call.reference)

    @routes.serve(api.SET_MEMBER)
    def set_member(call: Call[Query, api.MemberBody]) -> list[Membership]:
        """Give a user a role in a project, or end the membership. For admins of the project or the server."""
        return accounts.set_member(call.actor, call.reference, call.body)


def _add_tokens(routes: Routes, service: Service) -> None:
    accounts = service.accounts

    @routes.serve(api.TOKENS)
    def tokens(call: Call[api.TokensQuery]) -> list[Token]:
        """Return tokens without their texts, oldest first: the caller's, or for an admin those of others."""
        return accounts.tokens(call.actor, call.query)

    @routes.serve(api.ADD_TOKEN)
    def add_token(call: Call[Query, api.TokenBody]) -> api.NewToken:
        """Return a new token with its text, which no later answer has."""
        return accounts.add_token(call.actor, call.body)

    @routes.serve(api.REVOKE_TOKEN)
    def revoke_token(call: Call) -> Token:
        """Revoke a token, by its id."""
        return accounts.revoke_token(call.actor, call.reference)

    @routes.serve(api.AUDIT)
    def audit(call: Call[api.AuditQuery]) -> list[AuditEntry]:
        """Return the newest changes and refusals, newest first."""
        query = call.query
        return accounts.records.audit(user=query.user, since=query.since, limit=query.limit)


def _add_subscriptions(routes: Routes, service: Service) -> None:
    @routes.serve(api.SUBSCRIPTIONS)
    def subscriptions(call: Call[api.SubscriptionsQuery]) -> list[api.PersonalSubscription]:
        """Return the receivers of messages about all runs of the caller, or for an admin of another user.

        No answer has a whole URL, because it is often a key.
        """
        return personal.subscriptions(service, call.actor, call.query.user)

    @routes.serve(api.SUBSCRIBE)
    def subscribe(call: Call[Query, api.SubscriptionBody]) -> list[api.PersonalSubscription]:
        """Notify a receiver of events of all runs of the caller, or end that, and return the subscriptions.

        404 where there is none to end, 409 for a 21st one.
        """
        return personal.subscribe(service, call.actor, call.body)
