"""Accounts, tokens, the audit log, and subscriptions of people to their own runs. Joined by `server.app`."""

from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import Query
from tarmac.control.permissions import Action, check
from tarmac.control.state.event_bus import Wakeup
from tarmac.dialects.native.notify import MOST_SUBSCRIPTIONS, named_receiver
from tarmac.model.actor import Actor
from tarmac.model.errors import NotFound, Refused
from tarmac.model.notification import DEFAULT_WAIT_S, Occasion, Receiver, Subscription
from tarmac.model.people.account import Account, AuditEntry, Membership, Organisation, Token
from tarmac.server.accounts.account_service import SESSION_S
from tarmac.server.accounts.auditing import UNCHANGED
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CALLER, SESSION_COOKIE
from tarmac.server.http.origins import ORIGIN, network_of
from tarmac.server.http.rates import RateKind
from tarmac.server.http.routing import Call, serve
from tarmac.server.service import Handlers, Service


class AccountHandlers(Handlers):
    """The routes about logging in, users, members and tokens."""

    def _limit(self, call: Call[Query, api.LoginBody]) -> None:
        """Raise TooManyRequests if somebody may be guessing a password."""
        self.service.rates.check(RateKind.LOGIN_ADDRESS, network_of(call.request.scope.get(ORIGIN, "")))
        self.service.rates.check(RateKind.LOGIN_ACCOUNT, call.body.user)

    @serve(api.LOGIN)
    def login(self, call: Call[Query, api.LoginBody]) -> api.NewToken:
        """Return a new token for a user with the right password. 401 for any other."""
        self._limit(call)
        return self.service.accounts.login(call.body)

    @serve(api.BEGIN_SESSION)
    def begin_session(self, call: Call[Query, api.LoginBody]) -> Response:
        """Begin the session of a browser, in a cookie, for a user with the right password, or return 401."""
        self._limit(call)
        made = self.service.accounts.login(call.body, session=True)
        answer = JsonAnswer(self.service.accounts.account(made.token.user))
        answer.set_cookie(
            SESSION_COOKIE, made.text, max_age=int(SESSION_S), secure=True, httponly=True, samesite="lax"
        )
        return answer

    @serve(api.END_SESSION)
    def end_session(self, call: Call) -> Response:
        """End the session of this browser."""
        answer = JsonAnswer(self._revoked(call))
        answer.delete_cookie(SESSION_COOKIE, secure=True, httponly=True, samesite="lax")
        return answer

    @serve(api.LOGOUT)
    def logout(self, call: Call) -> Token:
        """Revoke the token of this request."""
        return self._revoked(call)

    def _revoked(self, call: Call) -> Token:
        caller = call.request.scope.get(CALLER)
        if caller is None or caller.token is None:
            raise Refused("this request has no token of an account to revoke")
        return self.service.accounts.revoke_token(caller.actor, caller.token)

    @serve(api.WHO_AM_I)
    def who_am_i(self, call: Call) -> Account:
        """Return the caller's account."""
        return self.service.accounts.own(call.actor)

    @serve(api.SET_PASSWORD)
    def set_password(self, call: Call[Query, api.PasswordBody]) -> Account:
        """Set the caller's password, and revoke all of their tokens."""
        return self.service.accounts.set_password(call.actor, call.body)

    @serve(api.BEGIN_SIGN_ON)
    def begin_sign_on(self, call: Call[Query, api.BeginSignOnBody]) -> api.SignOn:
        """Begin a login by single sign-on. 409 if the server has none, 503 if its provider is down."""
        self.service.rates.check(RateKind.LOGIN_ADDRESS, network_of(call.request.scope.get(ORIGIN, "")))
        return self.service.sign_on.begin(call.body)

    @serve(api.FINISH_SIGN_ON)
    def finish_sign_on(self, call: Call[Query, api.SignOnBody]) -> api.SignOnProgress:
        """Return a new token for the user whom the provider names, once for each login.

        401 if the provider refuses the user, 503 if it is down.
        """
        found = self.service.sign_on.finish(call.body)
        if found.login is None:
            call.request.scope[UNCHANGED] = True  # the client asks again
        return found

    @serve(api.USERS)
    def users(self, call: Call) -> list[Account]:
        """Return all accounts that the caller may see, by name."""
        return self.service.accounts.users(call.actor)

    @serve(api.SET_USER)
    def set_user(self, call: Call[Query, api.UserBody]) -> Account:
        """Create an account, or change fields of one. A disabled account loses its tokens.

        409 for the first account from another machine.
        """
        return self.service.accounts.set_user(call.caller, call.reference, call.body)

    @serve(api.REMOVE_USER)
    def remove_user(self, call: Call) -> Account:
        """Remove an account, its tokens and subscriptions, and return it. Its runs stay under its name."""
        return self.service.accounts.remove_user(call.actor, call.reference)

    @serve(api.ORGANISATIONS)
    def organisations(self, call: Call) -> list[Organisation]:
        """Return the organisations, by name."""
        return self.service.accounts.organisations(call.actor)

    @serve(api.SET_ORGANISATION)
    def set_organisation(self, call: Call[Query, api.OrganisationBody]) -> Organisation:
        """Set what the members of an organisation may do with the runs of each other."""
        new = Organisation(name=call.reference, visibility=call.body.visibility)
        return self.service.accounts.set_organisation(call.actor, new)

    @serve(api.MEMBERS)
    def members(self, call: Call) -> list[Membership]:
        """Return the members of a project, by name; none if all members of the server may use it."""
        return self.service.accounts.members(call.actor, call.reference)

    @serve(api.SET_MEMBER)
    def set_member(self, call: Call[Query, api.MemberBody]) -> list[Membership]:
        """Give a user a role in a project, or end the membership. For admins of the project or the server."""
        return self.service.accounts.set_member(call.actor, call.reference, call.body)

    @serve(api.TOKENS)
    def tokens(self, call: Call[api.TokensQuery]) -> list[Token]:
        """Return tokens without their texts, oldest first: the caller's, or for an admin those of others."""
        return self.service.accounts.tokens(call.actor, call.query)

    @serve(api.ADD_TOKEN)
    def add_token(self, call: Call[Query, api.TokenBody]) -> api.NewToken:
        """Return a new token with its text, which no later answer has."""
        return self.service.accounts.add_token(call.actor, call.body)

    @serve(api.REVOKE_TOKEN)
    def revoke_token(self, call: Call) -> Token:
        """Revoke a token, by its id."""
        return self.service.accounts.revoke_token(call.actor, call.reference)

    @serve(api.AUDIT)
    def audit(self, call: Call[api.AuditQuery]) -> list[AuditEntry]:
        """Return the newest changes and refusals, newest first."""
        query = call.query
        return self.service.accounts.records.audit(user=query.user, since=query.since, limit=query.limit)

    @serve(api.SUBSCRIPTIONS)
    def subscriptions(self, call: Call[api.SubscriptionsQuery]) -> list[api.PersonalSubscription]:
        """Return the receivers of messages about all runs of the caller, or for an admin of another user.

        No answer has a whole URL, because it is often a key.
        """
        return _subscriptions(self.service, call.actor, call.query.user)

    @serve(api.SUBSCRIBE)
    def subscribe(self, call: Call[Query, api.SubscriptionBody]) -> list[api.PersonalSubscription]:
        """Notify a receiver of events of all runs of the caller, or end that, and return the subscriptions.

        404 where there is none to end, 409 for a 21st one.
        """
        return _subscribe(self.service, call.actor, call.body)


def _subscriptions(service: Service, actor: Actor, user: str | None = None) -> list[api.PersonalSubscription]:
    """The subscriptions of the actor, or for an administrator of another user, without whole URLs."""
    if user not in (None, actor.user):
        check(actor, Action.MANAGE)
    return [
        api.PersonalSubscription(receiver=str(each.receiver), on=each.on, waiting_s=each.waiting_s)
        for each in service.plane.control.store.notifications.subscriptions().get(user or actor.user, ())
    ]


def _subscribe(service: Service, actor: Actor, body: api.SubscriptionBody) -> list[api.PersonalSubscription]:
    """Subscribe the actor to their own runs, or end subscriptions; returns those that the actor has now."""
    control, new = service.plane.control, _read(service, actor, body)
    with control.lock:
        known = control.store.notifications.subscriptions().get(actor.user, ())
        gone = [new.receiver] if new else [to for each in known if _matches(to := each.receiver, body.to)]
        kept = [each for each in known if each.receiver not in gone]
        if not (new or gone or body.to is None):
            hint = "tarmac notifications ls lists yours"
            raise NotFound(f"you have no subscription {body.to!r:.80}", hint=hint)
        if len(kept) >= MOST_SUBSCRIPTIONS:
            raise Refused(f"you have {len(kept)} subscriptions, the most", hint="tarmac notifications unset")
        control.store.notifications.subscribe(actor.user, [*kept, *([new] if new else [])])
        control.subscriptions.refresh(control.run_cache())
    control.event_bus.notify(Wakeup.NOTIFY)
    return _subscriptions(service, actor)


def _read(service: Service, actor: Actor, body: api.SubscriptionBody) -> Subscription | None:
    """The new subscription of a request; raises InvalidInput for a receiver that cannot or may not be."""
    waiting = () if body.waiting_s is None else (Occasion.WAITING,)
    on, sender = tuple(dict.fromkeys((*body.on, *waiting))), service.plane.sender
    if not on:
        return None
    receiver = service.secrets.scoped(named_receiver(body.to or "", body.channel), actor)
    if sender is not None:
        sender.check(receiver)
    return Subscription(receiver=receiver, on=on, waiting_s=body.waiting_s or DEFAULT_WAIT_S)


def _matches(receiver: Receiver, to: str | None) -> bool:
    """Whether a text is a receiver's address, as `set` takes it or as answers show it; None is every one."""
    return to in (None, receiver.address, str(receiver), f"${{{{ secrets.{receiver.address} }}}}")
