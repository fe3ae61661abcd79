"""The operations on users, their tokens, limits and credits, on members of projects, and on the audit log.

Bound by `server.routes`, called by `client`.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from tarmac.api.operation import Body, Count, Operation, Query
from tarmac.model.actor import Action, ActorRole
from tarmac.model.notification import ENDED, Channel, Occasion
from tarmac.model.people.account import (
    TOKEN_DAYS,
    Account,
    AccountSettings,
    AuditEntry,
    Membership,
    Organisation,
    Token,
    Visibility,
)
from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit, LimitKind

Password = Annotated[str, Meta(max_length=4096)]


class NewToken(Struct, frozen=True, kw_only=True):
    """A new token, with its text, which no later answer has."""

    token: Token
    text: str


class LoginBody(Body, frozen=True, kw_only=True):
    """A user with a password. `label` names the new token, such as the machine that asks for it."""

    user: Annotated[str, Meta(max_length=256)]
    password: Password
    label: Annotated[str, Meta(max_length=200)] = "login"


class BeginSignOnBody(Body, frozen=True, kw_only=True):
    """A login by single sign-on. `label` names the new token.

    `redirect_uri` is an address at which the client waits for the browser: http://127.0.0.1:PORT/callback.
    `browser`: use it also where the provider has codes for devices.
    """

    redirect_uri: Annotated[str, Meta(max_length=100)]
    browser: bool = False
    label: Annotated[str, Meta(max_length=200)] = "login"


class SignOn(Struct, frozen=True, kw_only=True):
    """A login that the user confirms at `url`, the provider's page, within `expires_in_s`.

    With `code`, the user types it there, and the client asks every `interval_s` for the token. Without one,
    the page redirects the browser to the client. `request` identifies the login. `logout_url` is the page
    that ends the user's session at the provider.
    """

    request: str
    url: str
    code: str | None
    expires_in_s: float
    interval_s: float
    logout_url: str | None = None


class SignOnBody(Body, frozen=True, kw_only=True):
    """The `request` of a login, and without a code for devices, `code` and `state` of the redirection."""

    request: Annotated[str, Meta(max_length=8192)]
    code: Annotated[str, Meta(max_length=4096)] = ""
    state: Annotated[str, Meta(max_length=4096)] = ""


class SignOnProgress(Struct, frozen=True, kw_only=True):
    """The token, or null before the user has confirmed. `slow_down`: wait 5 s longer each time."""

    login: NewToken | None = None
    slow_down: bool = False


class UserBody(Body, frozen=True, kw_only=True):
    """The settings of an account, in place of the present ones, and a new password (null: the present)."""

    account: AccountSettings = AccountSettings()
    password: Password | None = None


class PasswordBody(Body, frozen=True, kw_only=True):
    """The caller's new password, and the current one, if there is one."""

    password: Password
    current: Password | None = None


class OrganisationBody(Body, frozen=True, kw_only=True):
    """The rights of its members to the runs of each other."""

    visibility: Visibility


class MemberBody(Body, frozen=True, kw_only=True):
    """The role of a user in a project; null ends the membership."""

    user: Annotated[str, Meta(max_length=256)]
    role: ActorRole | None = ActorRole.MEMBER


class TokensQuery(Query, frozen=True, kw_only=True):
    """The tokens of a user (the caller), or `all`; others than one's own are for admins."""

    user: str | None = None
    all: bool = False


class TokenBody(Body, frozen=True, kw_only=True):
    """A new token of the caller, or (for an admin) of another user.

    `scopes`: only these actions, and reading. `lifetime_s`: null for no end, for service accounts alone.
    """

    label: Annotated[str, Meta(min_length=1, max_length=200)]
    user: str | None = None
    scopes: tuple[Action, ...] | None = None
    lifetime_s: Annotated[float, Meta(gt=0)] | None = TOKEN_DAYS * 86400.0


class SubscriptionsQuery(Query, frozen=True, kw_only=True):
    """The subscriptions of a user, by default the caller's; others than one's own are for admins."""

    user: str | None = None


class PersonalSubscription(Struct, frozen=True, kw_only=True):
    """A receiver of messages about all runs of its user, on these events.

    `receiver` is an address of mail, or the host of a URL. `waiting_s`: the wait in a queue after which
    `waiting` applies.
    """

    receiver: str
    on: tuple[Occasion, ...]
    waiting_s: float


class SubscriptionBody(Body, frozen=True, kw_only=True):
    """A subscription of the caller to all of their own runs, in place of one with this receiver.

    `to` is an address of mail, an http(s) URL, or `${{ secrets.NAME }}`; `channel` the form of messages, by
    default the one of the address. `waiting_s` adds `waiting` to the events. Without any event, the
    subscription ends; `to` may then be the text of an answer, or null for all.
    """

    to: Annotated[str, Meta(max_length=2000)] | None = None
    channel: Channel | None = None
    on: tuple[Occasion, ...] = ENDED
    waiting_s: Annotated[float, Meta(gt=0, le=1e9)] | None = None


class AuditQuery(Query, frozen=True, kw_only=True):
    """The newest entries, of one user, not older than `since` (seconds since 1970)."""

    user: str | None = None
    since: float = 0.0
    limit: Count = 100


LOGIN = Operation("POST", "/login", Action.OPEN, NewToken, body=LoginBody)
BEGIN_SESSION = Operation("POST", "/session", Action.OPEN, Account, body=LoginBody)
END_SESSION = Operation("DELETE", "/session", Action.OPEN, Token)
BEGIN_SIGN_ON = Operation("POST", "/login/sso", Action.OPEN, SignOn, body=BeginSignOnBody)
FINISH_SIGN_ON = Operation("POST", "/login/sso/token", Action.OPEN, SignOnProgress, body=SignOnBody)
LOGOUT = Operation("POST", "/logout", Action.OPEN, Token)
WHO_AM_I = Operation("GET", "/account", Action.ACCOUNT, Account)
SET_PASSWORD = Operation("PUT", "/account/password", Action.ACCOUNT, Account, body=PasswordBody)
USERS = Operation("GET", "/users", Action.READ, list[Account])
SET_USER = Operation("PUT", "/users/{user}", Action.MANAGE, Account, body=UserBody)
REMOVE_USER = Operation("DELETE", "/users/{user}", Action.MANAGE, Account)
ORGANISATIONS = Operation("GET", "/organisations", Action.READ, list[Organisation])
SET_ORGANISATION = Operation(
    "PUT", "/organisations/{organisation}", Action.MANAGE, Organisation, body=OrganisationBody
)
MEMBERS = Operation("GET", "/projects/{project}/members", Action.READ, list[Membership])
SET_MEMBER = Operation(
    "PUT", "/projects/{project}/members", Action.ACCOUNT, list[Membership], body=MemberBody
)
TOKENS = Operation("GET", "/tokens", Action.ACCOUNT, list[Token], query=TokensQuery)
ADD_TOKEN = Operation("POST", "/tokens", Action.ACCOUNT, NewToken, body=TokenBody, status=201)
REVOKE_TOKEN = Operation("DELETE", "/tokens/{token}", Action.ACCOUNT, Token)
_OWN, _Found = "/account/notifications", list[PersonalSubscription]
SUBSCRIPTIONS = Operation("GET", _OWN, Action.ACCOUNT, _Found, query=SubscriptionsQuery)
SUBSCRIBE = Operation("PUT", _OWN, Action.ACCOUNT, _Found, body=SubscriptionBody)
AUDIT = Operation("GET", "/audit", Action.MANAGE, list[AuditEntry], query=AuditQuery)


MOST_ENTRIES = 10_000
"""The most entries of a page of the ledger."""


class LimitBody(Limit, Body, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes of the limits of a scope: given fields are set, those in `unset` removed, others stay.

    `*` as a user, project or pool means each one without a limit of its own. A pool is POOL or CLUSTER/POOL.
    """

    unset: list[LimitKind] = field(default_factory=list)


class GrantBody(Body, frozen=True, kw_only=True):
    """Credits for an account, `user:NAME` or `project:NAME`. `correction`: may be negative, is no new grant.

    A second request with the same `key` changes nothing.
    """

    account: Annotated[str, Meta(pattern="^(user|project):.", max_length=300)]
    credits: Annotated[float, Meta(ge=-1e12, le=1e12)]
    correction: bool = False
    note: Annotated[str, Meta(max_length=1000)] = ""
    key: Annotated[str, Meta(min_length=1, max_length=100)]


class LedgerQuery(Query, frozen=True, kw_only=True):
    """A page of the entries of one account (`user:NAME`, `project:NAME`), or of all.

    `before`: only those with a smaller id.
    """

    account: str | None = None
    before: Count | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_ENTRIES)] = 100


LIMITS = Operation("GET", "/limits", Action.READ, list[Limit])
SET_LIMITS = Operation("PUT", "/limits", Action.MANAGE, Limit, body=LimitBody)
CREDITS = Operation("GET", "/credits", Action.READ, list[CreditAccount])
GRANT_CREDITS = Operation("POST", "/credits", Action.MANAGE, CreditAccount, body=GrantBody)
CREDIT_ENTRIES = Operation("GET", "/credits/entries", Action.READ, list[CreditEntry], query=LedgerQuery)
