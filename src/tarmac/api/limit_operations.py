"""The operations on limits and credits. Bound by `server.routes`, called by `client`."""

from typing import Annotated

from msgspec import Meta, field

from tarmac.api.operation import Body, Count, Operation, Query
from tarmac.model.actor import Action
from tarmac.model.people.limits import CreditAccount, CreditEntry, Limit, LimitKind

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
